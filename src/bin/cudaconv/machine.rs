//! What this machine is, read from the system without loading any driver.

/// The processor's name, or its architecture.
pub fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    field(&info, "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// Processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Vector instructions that matter to a filter.
pub fn simd() -> Vec<&'static str> {
    let mut found = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("SSE4.1", std::is_x86_feature_detected!("sse4.1")),
            ("AVX2", std::is_x86_feature_detected!("avx2")),
            ("FMA", std::is_x86_feature_detected!("fma")),
            ("AVX-512", std::is_x86_feature_detected!("avx512f")),
        ];
        found.extend(
            all.iter()
                .filter(|(_, there)| *there)
                .map(|(name, _)| *name),
        );
    }
    #[cfg(target_arch = "aarch64")]
    if std::arch::is_aarch64_feature_detected!("neon") {
        found.push("NEON");
    }
    found
}

/// The processor with what matters to a filter, for people.
pub fn describe_cpu() -> String {
    format!("{}, {} processors, {}", cpu(), cores(), simd().join(" "))
}

/// Distribution and kernel.
pub fn system() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .unwrap_or_else(|| std::env::consts::OS.to_owned());
    match std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(kernel) => format!("{name}, kernel {}", kernel.trim()),
        Err(_) => name,
    }
}

/// The version of the NVIDIA kernel module, if it is loaded.
pub fn nvidia_module() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    module_version(&text)
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The first thing after `Kernel Module` that looks like a version.
fn module_version(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains("Kernel Module"))?;
    line.split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_version_is_read_from_both_kinds_of_driver() {
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n\
                      GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)";
        assert_eq!(module_version(closed).as_deref(), Some("535.183.01"));
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build";
        assert_eq!(module_version(open).as_deref(), Some("580.65.06"));
        assert_eq!(module_version("nothing"), None);
    }

    #[test]
    fn this_machine_is_described() {
        assert!(!cpu().is_empty() && cores() >= 1 && !system().is_empty());
        assert_eq!(
            field("processor\t: 0\nmodel name\t: X 1: Y\n", "model name").as_deref(),
            Some("X 1: Y")
        );
    }
}
