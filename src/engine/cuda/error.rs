//! What failed in the driver, and what that means for the device.

use super::api::{Api, Failure, code};
use crate::engine::EngineError;

/// A call of the driver that failed, with the driver's own words for it and the device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed on {device}: {name} ({code}), {text}{detail}")]
pub struct CudaError {
    pub call: &'static str,
    pub code: u32,
    /// The driver's name of the code: `CUDA_ERROR_ILLEGAL_ADDRESS`.
    pub name: String,
    /// The driver's description of it.
    pub text: String,
    /// For people: `NVIDIA H200 (device 0)`.
    pub device: String,
    /// What else is known, beginning with a separator; may be empty.
    pub detail: String,
}

impl CudaError {
    pub fn new(api: &Api, failure: Failure, device: &str) -> CudaError {
        let (name, text) = api.describe(failure.code);
        CudaError {
            call: failure.call,
            code: failure.code,
            name,
            text,
            device: device.to_owned(),
            detail: String::new(),
        }
    }

    /// The same with more about it.
    pub fn with_detail(mut self, detail: &str) -> CudaError {
        if !detail.is_empty() {
            self.detail = format!("; {detail}");
        }
        self
    }
}

impl From<CudaError> for EngineError {
    fn from(error: CudaError) -> EngineError {
        EngineError {
            call: error.call.into(),
            reason: format!(
                "{} ({}), {}{}",
                error.name, error.code, error.text, error.detail
            ),
            device: error.device,
        }
    }
}

/// Whether CUDA promises nothing more of this context in this process after `code`. `cuda.h` says
/// of each: "the process must be terminated and relaunched" or "all existing device memory
/// allocations are invalid".
pub fn is_fatal(code: u32) -> bool {
    matches!(
        code,
        code::DEINITIALIZED
            | code::DEVICE_UNAVAILABLE
            | code::ECC_UNCORRECTABLE
            | code::NVLINK_UNCORRECTABLE
            | code::CONTAINED
            | code::ILLEGAL_ADDRESS
            | code::LAUNCH_TIMEOUT
            | code::CONTEXT_IS_DESTROYED
            | code::ASSERT
            | code::HARDWARE_STACK_ERROR
            | code::ILLEGAL_INSTRUCTION
            | code::MISALIGNED_ADDRESS
            | code::INVALID_ADDRESS_SPACE
            | code::INVALID_PC
            | code::LAUNCH_FAILED
            | code::MPS_CLIENT_TERMINATED
            | code::EXTERNAL_DEVICE
            | code::UNKNOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_call_code_and_device() {
        let error = CudaError {
            call: "cuEventQuery",
            code: code::ILLEGAL_ADDRESS,
            name: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            text: "an illegal memory access was encountered".into(),
            device: "NVIDIA H200 (device 0)".into(),
            detail: String::new(),
        };
        let expected = "cuEventQuery failed on NVIDIA H200 (device 0): CUDA_ERROR_ILLEGAL_ADDRESS \
                        (700), an illegal memory access was encountered";
        assert_eq!(error.to_string(), expected);
        assert_eq!(EngineError::from(error.clone()).to_string(), expected);
        let detailed = error.with_detail("line 3: syntax error").to_string();
        assert!(detailed.ends_with("encountered; line 3: syntax error"));
    }

    #[test]
    fn shortage_and_bad_arguments_leave_the_device_alive() {
        // Out of memory, invalid value, not ready, launch out of resources, invalid PTX.
        for code in [1, 2, 600, 701, 218] {
            assert!(!is_fatal(code), "{code}");
        }
        for code in [700, 702, 715, 719, 999, 214] {
            assert!(is_fatal(code), "{code}");
        }
    }
}
