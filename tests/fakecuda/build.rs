fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The name under which the loader knows a CUDA driver.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
}
