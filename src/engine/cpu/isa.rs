//! The instruction sets that the vector code is compiled for, and the one this machine has.

use std::sync::OnceLock;

/// What the vector code may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// Whatever every processor of the target has.
    Portable,
    /// AVX2 with fused multiply-add (Haswell, Zen and later).
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 and later).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The best that this machine has.
    pub fn detect() -> Isa {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(|| *Isa::all().last().expect("the portable one at least"))
    }

    /// All that this machine has, the best last.
    pub fn all() -> Vec<Isa> {
        #[allow(unused_mut, reason = "other architectures have the portable one alone")]
        let mut all = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 {
                all.push(Isa::Avx2);
            }
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                all.push(Isa::Avx512);
            }
        }
        all
    }

    fn name(self) -> &'static str {
        match self {
            Isa::Portable => std::env::consts::ARCH,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => "AVX-512",
        }
    }
}

/// For people: `CPU (Intel(R) Xeon(R) Gold 6430, 2 threads, AVX-512)`.
pub fn describe_device(threads: usize) -> String {
    let isa = Isa::detect().name();
    let plural = if threads == 1 { "" } else { "s" };
    match processor_name() {
        Some(name) => format!("CPU ({name}, {threads} thread{plural}, {isa})"),
        None => format!("CPU ({threads} thread{plural}, {isa})"),
    }
}

#[cfg(target_arch = "x86_64")]
fn processor_name() -> Option<String> {
    use std::arch::x86_64::__cpuid;
    /// First of the three leaves that hold the name (Intel SDM, CPUID, "brand string").
    const BRAND: u32 = 0x8000_0002;
    #[allow(unused_unsafe, reason = "safe in newer compilers")]
    // SAFETY: every x86-64 processor has CPUID and its leaf 0x8000_0000.
    let highest = unsafe { __cpuid(0x8000_0000) }.eax;
    if highest < BRAND + 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(48);
    for leaf in BRAND..BRAND + 3 {
        #[allow(unused_unsafe, reason = "safe in newer compilers")]
        // SAFETY: the leaf exists, as just checked.
        let r = unsafe { __cpuid(leaf) };
        for register in [r.eax, r.ebx, r.ecx, r.edx] {
            bytes.extend(register.to_le_bytes());
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let words: Vec<&str> = text.trim_matches(['\0', ' ']).split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    (text.lines())
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == "model name")
        .map(|(_, name)| name.trim().to_string())
}
