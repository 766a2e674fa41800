//! Finding the plugin: the file beside the program, else the installed one. The program never
//! registers the element itself, so that its type exists once in the process.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gst::prelude::*;

/// The element, and the name of the plugin that brings it.
pub const ELEMENT: &str = "cudaconv";
const FILE: &str = "libgstcudaconv.so";

/// Where the plugin that is used came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A file beside the program.
    Beside,
    /// GStreamer's registry: an installed plugin, or one in `GST_PLUGIN_PATH`.
    Installed,
}

/// The plugin in use.
#[derive(Debug, Clone)]
pub struct Plugin {
    pub file: PathBuf,
    pub version: String,
    pub origin: Origin,
    /// A plugin file that GStreamer would have offered otherwise.
    pub passed_over: Option<PathBuf>,
}

/// Why there is no element.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error(
        "the plugin {FILE} was found neither beside this program ({}) nor among GStreamer's \
         installed plugins; build it with `cargo build --release`, or install it with \
         scripts/install.sh",
        list(.0)
    )]
    NotFound(Vec<PathBuf>),
    #[error("the plugin file {} cannot be loaded: {reason}", .file.display())]
    Broken { file: PathBuf, reason: String },
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    paths.join(", ")
}

/// Makes the element available and says from which file.
///
/// The file beside the program comes first: program and plugin of one build belong together. The
/// registry only knows installed plugins by name until an element of theirs is made, so loading
/// the file beside replaces the entry, and the installed file is never opened. Should GStreamer
/// have opened one already (it does where it may not start its scanner), that one is used.
///
/// # Errors
/// When there is no plugin, or its file cannot be loaded.
pub fn load() -> Result<Plugin, PluginError> {
    let registry = gst::Registry::get();
    let registered = registry
        .lookup_feature(ELEMENT)
        .and_then(|feature| feature.plugin());
    let candidates = candidates();
    let beside = candidates.iter().find(|path| path.is_file());
    let (Some(file), false) = (beside, registered.as_ref().is_some_and(|p| p.is_loaded())) else {
        return match registered {
            Some(plugin) => installed(&plugin),
            None => Err(PluginError::NotFound(candidates)),
        };
    };
    let passed_over = registered
        .and_then(|plugin| plugin.filename())
        .filter(|other| !same_file(other, file));
    let plugin = gst::Plugin::load_file(file).map_err(|error| PluginError::Broken {
        file: file.clone(),
        reason: error.message().to_owned(),
    })?;
    Ok(Plugin {
        file: file.clone(),
        version: plugin.version().to_string(),
        origin: Origin::Beside,
        passed_over,
    })
}

fn installed(plugin: &gst::Plugin) -> Result<Plugin, PluginError> {
    let file = plugin.filename().unwrap_or_default();
    let plugin = plugin.load().map_err(|error| PluginError::Broken {
        file: file.clone(),
        reason: error.message.to_string(),
    })?;
    Ok(Plugin {
        file,
        version: plugin.version().to_string(),
        origin: Origin::Installed,
        passed_over: None,
    })
}

/// Where a plugin of the same build or the same installation would be.
fn candidates() -> Vec<PathBuf> {
    let Ok(program) = std::env::current_exe() else {
        return Vec::new();
    };
    let Some(folder) = program.parent() else {
        return Vec::new();
    };
    // Cargo links the library beside the program only when it is built for its own sake, but
    // always builds it into deps: what lies beside may be older than the program.
    let mut folders = vec![folder.join("deps"), folder.to_owned()];
    if let Some(prefix) = folder.parent() {
        folders.push(prefix.join("lib"));
        folders.push(prefix.join("lib/gstreamer-1.0"));
        let architecture = format!("lib/{}-linux-gnu/gstreamer-1.0", std::env::consts::ARCH);
        folders.push(prefix.join(architecture));
    }
    folders.iter().map(|folder| folder.join(FILE)).collect()
}

/// Cargo links the library beside the program to the one in `deps`: two names of one file.
fn same_file(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = path.metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    match (identity(a), identity(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_is_the_same_under_each_of_its_names() {
        let folder =
            std::env::temp_dir().join(format!("cudaconv-same-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [file, link, twin, copy] = ["file", "link", "twin", "copy"].map(|n| folder.join(n));
        fs::write(&file, "bytes").unwrap();
        symlink(&file, &link).unwrap();
        fs::hard_link(&file, &twin).unwrap();
        fs::copy(&file, &copy).unwrap();
        assert!(same_file(&file, &file));
        assert!(same_file(&file, &link));
        assert!(same_file(&file, &twin));
        assert!(!same_file(&file, &copy), "equal bytes, but another file");
        let missing = folder.join("missing");
        assert!(!same_file(&file, &missing));
        assert!(same_file(&missing, &missing));
        fs::remove_dir_all(&folder).unwrap();
    }
}
