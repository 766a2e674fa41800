#[test] fn a(){ println!("{:?}", std::env::current_exe()); }
