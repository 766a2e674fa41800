//! What the environment says, read once.

use std::str::FromStr;
use std::sync::LazyLock;

pub struct Settings {
    /// Indices of the visible devices.
    pub devices: Vec<u32>,
    pub driver_version: i32,
    /// Compute capability times ten.
    pub compute: i32,
    /// Bytes of each device.
    pub memory: u64,
    /// Longest added time of an operation.
    pub delay_us: u64,
    /// Kernels run one at a time.
    pub serial: bool,
}

pub static SETTINGS: LazyLock<Settings> = LazyLock::new(|| Settings {
    devices: visible(
        number("FAKECUDA_DEVICES", 1),
        std::env::var("CUDA_VISIBLE_DEVICES").ok().as_deref(),
    ),
    driver_version: number("FAKECUDA_DRIVER_VERSION", 12020),
    compute: number("FAKECUDA_COMPUTE", 90),
    memory: number("FAKECUDA_MEMORY", 1 << 30),
    delay_us: number("FAKECUDA_DELAY_US", 50),
    serial: number("FAKECUDA_SERIAL", 0) != 0,
});

fn number<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => match text.parse() {
            Ok(number) => number,
            Err(_) => panic!("{name}={text} is not a number"),
        },
    }
}

/// The list ends at the first entry that names no device, as in CUDA.
fn visible(count: u32, list: Option<&str>) -> Vec<u32> {
    match list {
        None => (0..count).collect(),
        Some(list) => (list.split(','))
            .map_while(|entry| entry.trim().parse().ok().filter(|index| *index < count))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn the_list_of_visible_devices_is_read_as_cuda_does() {
        assert_eq!(visible(2, None), [0, 1]);
        assert_eq!(visible(2, Some("1,0")), [1, 0]);
        assert_eq!(visible(2, Some("1,7,0")), [1]);
        assert!(visible(2, Some("")).is_empty());
        assert!(visible(2, Some("-1")).is_empty());
    }
}
