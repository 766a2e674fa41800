//! The instruction sets that the vector code is compiled for, and the one this machine has.

use super::simd::Portable;
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512, Vbmi};

/// An instruction set that this machine has. Vector code takes one and runs the version of
/// itself that was compiled for it.
#[derive(Debug, Clone, Copy)]
pub enum Isa {
    /// Whatever every processor of the target has.
    Portable(Portable),
    /// AVX2 with fused multiply-add (Haswell, Zen and later).
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 F, BW, DQ and VL (Skylake-X, Zen 4 and later).
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

impl Isa {
    /// The best that this machine has.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(simd) = Avx512::detect() {
                return Isa::Avx512(simd);
            }
            if let Some(simd) = Avx2::detect() {
                return Isa::Avx2(simd);
            }
        }
        Isa::Portable(Portable)
    }

    /// All that this machine has.
    #[cfg(test)]
    pub fn all() -> Vec<Isa> {
        #[allow(unused_mut, reason = "other architectures have the portable one alone")]
        let mut all = vec![Isa::Portable(Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(Avx2::detect().map(Isa::Avx2));
            all.extend(Avx512::detect().map(Isa::Avx512));
        }
        all
    }

    /// Byte permutations and dot products, which some machines with AVX-512 have too.
    #[cfg(target_arch = "x86_64")]
    pub fn vbmi(self) -> Option<Vbmi> {
        match self {
            Isa::Avx512(simd) => Vbmi::detect(simd),
            Isa::Portable(_) | Isa::Avx2(_) => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Isa::Portable(_) => std::env::consts::ARCH,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) => "AVX-512",
        }
    }
}

/// Compiles a function once for every instruction set.
///
/// `fn name(arguments) = body;` makes `name(isa, arguments)`, which calls
/// `body(simd, arguments)` with the vectors of `isa`, compiled with its instructions enabled.
/// `body` and what it calls must be `#[inline(always)]`: code that is not inlined does not get
/// the instructions.
macro_rules! for_each_isa {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $body:path;
    )*) => {$(
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the arguments of the body and the set")]
        $vis fn $name(isa: $crate::engine::cpu::isa::Isa, $($arg: $type),*) $(-> $result)? {
            use $crate::engine::cpu::isa::Isa;
            #[cfg(target_arch = "x86_64")]
            use $crate::engine::cpu::simd::{Avx2, Avx512};

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2")]
            fn avx512(simd: Avx512, $($arg: $type),*) $(-> $result)? {
                $body(simd, $($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
            fn avx2(simd: Avx2, $($arg: $type),*) $(-> $result)? {
                $body(simd, $($arg),*)
            }
            match isa {
                Isa::Portable(simd) => $body(simd, $($arg),*),
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the value exists only where `detect` found these instructions.
                Isa::Avx2(simd) => unsafe { avx2(simd, $($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Isa::Avx512(simd) => unsafe { avx512(simd, $($arg),*) },
            }
        }
    )*};
}
pub(crate) use for_each_isa;

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
