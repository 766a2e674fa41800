//! Where the test driver is, so that the loader finds it as it finds a real one.

use std::path::{Path, PathBuf};
use std::thread;

/// A value for `LD_LIBRARY_PATH`: the test driver's folder, before whatever is there now.
pub fn search_path() -> String {
    let folder = folder().display().to_string();
    match std::env::var("LD_LIBRARY_PATH") {
        Ok(path) if !path.is_empty() => format!("{folder}:{path}"),
        _ => folder,
    }
}

/// The folder in which the library that cargo built beside this program has the names of a driver.
pub fn folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let beside = program.parent().expect("programs are in folders");
    let library = beside.join("libfakecuda.so");
    assert!(library.is_file(), "{} is missing", library.display());
    let profile = beside
        .parent()
        .and_then(Path::file_name)
        .expect("target/PROFILE/deps");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("fakecuda")
        .join(profile);
    std::fs::create_dir_all(&folder).expect("a folder of cargo's");
    for name in ["libcuda.so", "libcuda.so.1"] {
        let link = folder.join(name);
        if std::fs::read_link(&link).ok().as_ref() != Some(&library) {
            // Another test may do the same at the same time: put it there in one step.
            let thread = format!("{:?}", thread::current().id());
            let unique = folder.join(format!(".{name}-{}-{thread}", std::process::id()));
            std::os::unix::fs::symlink(&library, &unique).expect("a link");
            std::fs::rename(&unique, &link).expect("a link in its place");
        }
    }
    folder
}
