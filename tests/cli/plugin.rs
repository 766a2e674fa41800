//! Which plugin file is used where there are several, or none.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{executable, finish, folder, plugin_file};

/// The program at `program`, with a registry of its own and `plugins` as plugin folder.
fn doctor(program: &Path, registry: &Path, plugins: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .arg("doctor")
        .env("GST_REGISTRY", registry)
        .env("GST_PLUGIN_PATH", plugins);
    command
}

#[test]
fn the_file_beside_the_program_comes_before_an_installed_one() {
    let folder = folder("beside");
    let (beside, installed) = (plugin_file(), folder.join("plugins/libgstcudaconv.so"));
    fs::create_dir(folder.join("plugins")).unwrap();
    fs::copy(&beside, &installed).unwrap();
    let registry = folder.join("registry");
    // The second time the registry knows the installed one from its cache.
    for _ in 0..2 {
        let mut command = doctor(executable(), &registry, &folder.join("plugins"));
        let finished = finish(&mut command);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        let used = format!("from {} (beside this program)", beside.display());
        assert!(finished.out.contains(&used), "{finished:?}");
        let other = format!("{} is not used", installed.display());
        assert!(finished.out.contains(&other), "{finished:?}");
        assert_eq!(finished.err, "");
    }
    // Where GStreamer opened the installed one itself, a second would be refused: none is opened.
    let mut command = doctor(executable(), &folder.join("other"), &folder.join("plugins"));
    let finished = finish(command.env("GST_REGISTRY_FORK", "no"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let used = format!("from {} (installed)", installed.display());
    assert!(finished.out.contains(&used), "{finished:?}");
    assert_eq!(finished.err, "");
}

/// Cargo's library beside the program is a link to the one in `deps`.
#[test]
fn two_names_of_one_file_are_one_plugin() {
    let folder = folder("twin");
    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).unwrap();
    fs::hard_link(plugin_file(), plugins.join("libgstcudaconv.so")).unwrap();
    let finished = finish(&mut doctor(
        executable(),
        &folder.join("registry"),
        &plugins,
    ));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert_eq!(
        finished.out.matches("libgstcudaconv.so").count(),
        1,
        "{finished:?}"
    );
    assert!(
        finished.out.contains("(beside this program)"),
        "{finished:?}"
    );
}

#[test]
fn alone_the_program_takes_the_installed_one_or_says_what_is_missing() {
    let folder = folder("alone");
    let program = folder.join("cudaconv");
    fs::copy(executable(), &program).unwrap();
    fs::create_dir(folder.join("none")).unwrap();
    let registry = folder.join("registry");
    let finished = finish(&mut doctor(&program, &registry, &folder.join("none")));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.out.contains("MISSING plugin"), "{finished:?}");
    let mut run = Command::new(&program);
    run.args(["run", "test", "--kernel", "sobel", "--no-output"])
        .env("GST_REGISTRY", &registry)
        .env("GST_PLUGIN_PATH", folder.join("none"));
    let finished = finish(&mut run);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(
        finished.err.contains("libgstcudaconv.so was found neither"),
        "{finished:?}"
    );

    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).unwrap();
    fs::copy(plugin_file(), plugins.join("libgstcudaconv.so")).unwrap();
    let finished = finish(&mut doctor(&program, &folder.join("installed"), &plugins));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.out.contains("(installed)"), "{finished:?}");
}
