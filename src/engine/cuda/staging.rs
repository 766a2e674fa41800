//! The way of frames in foreign memory through pinned memory: copied in parts by several threads,
//! while the device takes or brings the parts that are done.

use std::sync::{Mutex, PoisonError};

use super::api::CUdeviceptr;
use super::context::{Current, Event, Rows, Stream};
use super::error::CudaError;
use super::pinned::Block;
use super::team::Team;
use super::transfer::{Chunk, DevicePlane, HostPlane, Staging};
use crate::filter::Layout;

/// Addresses that threads may pass to each other; what is behind them is their users' duty.
#[derive(Clone, Copy)]
struct Address(*mut u8);

// SAFETY: a number.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

impl Address {
    /// The address `offset` bytes on.
    fn at(self, offset: usize) -> *mut u8 {
        self.0.wrapping_add(offset)
    }
}

/// The first error of several threads.
#[derive(Default)]
struct FirstError(Mutex<Option<CudaError>>);

impl FirstError {
    fn keep(&self, result: Result<(), CudaError>) {
        if let Err(error) = result {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }
    }

    fn into_result(self) -> Result<(), CudaError> {
        match self.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Where `chunk` lies between pinned memory and the device.
fn rows_of(chunk: &Chunk) -> Rows {
    Rows {
        bytes: chunk.bytes,
        rows: 1,
        host_stride: chunk.bytes,
        device_stride: chunk.bytes,
    }
}

/// Copies `sources` into `block` and on to the device at `to`. Returns when the first copy is
/// done; the second is in the stream.
///
/// # Safety
/// `sources` must be planes of `layout` that nobody writes meanwhile; `block` must hold
/// `staging.bytes`, the device memory at `to` as well, and both must stay valid, in no other use,
/// until the stream has passed this point, also after an error.
///
/// # Errors
/// As the driver's, also those of earlier work.
pub unsafe fn upload(
    current: &Current,
    staging: &Staging,
    layout: &Layout,
    sources: &[HostPlane],
    block: &Block,
    to: CUdeviceptr,
    stream: &Stream,
) -> Result<(), CudaError> {
    let context = current.context();
    let places: Vec<Address> = sources.iter().map(|plane| Address(plane.start)).collect();
    let strides: Vec<usize> = sources.iter().map(|plane| plane.stride).collect();
    let pinned = Address(block.start());
    let errors = FirstError::default();
    Team::shared().run(staging.chunks.len(), &|index| {
        let chunk = &staging.chunks[index];
        for &(plane, first, rows) in &chunk.rows {
            let DevicePlane { offset, stride } = staging.planes[plane];
            // SAFETY: rows of the plane and of the block; no other part has them.
            unsafe {
                copy_rows(
                    places[plane].at(first * strides[plane]),
                    strides[plane],
                    pinned.at(offset + first * stride),
                    stride,
                    layout.planes[plane].row_bytes,
                    rows,
                );
            }
        }
        let uploaded = context.enter().and_then(|current| {
            let to = to + chunk.start as u64;
            // SAFETY: passed on to the caller.
            unsafe { current.upload(to, pinned.at(chunk.start), rows_of(chunk), stream) }
        });
        errors.keep(uploaded);
    });
    errors.into_result()
}

/// Puts the copies of a frame from the device at `from` to `pinned` into the stream, with an event
/// behind each part.
///
/// # Safety
/// Both must hold `staging.bytes` and stay valid, in no other use, until the stream has passed
/// this point.
///
/// # Errors
/// As the driver's, also those of earlier work.
pub unsafe fn download(
    current: &Current,
    staging: &Staging,
    from: CUdeviceptr,
    pinned: *mut u8,
    stream: &Stream,
    parts: &[Event],
) -> Result<(), CudaError> {
    for (chunk, part) in staging.chunks.iter().zip(parts) {
        let from = from + chunk.start as u64;
        let to = pinned.wrapping_add(chunk.start);
        // SAFETY: passed on to the caller.
        unsafe { current.download(to, from, rows_of(chunk), stream)? };
        current.record(part, stream)?;
    }
    Ok(())
}

/// Copies the parts to `targets` as they arrive in `block`.
///
/// # Safety
/// `targets` must be planes of `layout` that nobody else uses; [`download`] must have put the
/// copies to `block` into the stream.
///
/// # Errors
/// As the driver's, also those of earlier work. Targets are then undefined.
pub unsafe fn copy_out(
    current: &Current,
    staging: &Staging,
    layout: &Layout,
    block: &Block,
    parts: &[Event],
    targets: &[HostPlane],
) -> Result<(), CudaError> {
    let context = current.context();
    let places: Vec<Address> = targets.iter().map(|plane| Address(plane.start)).collect();
    let strides: Vec<usize> = targets.iter().map(|plane| plane.stride).collect();
    let pinned = Address(block.start());
    let errors = FirstError::default();
    Team::shared().run(staging.chunks.len(), &|index| {
        let chunk = &staging.chunks[index];
        let arrived = context.enter().and_then(|current| {
            while !current.is_done(&parts[index])? {
                std::hint::spin_loop();
            }
            Ok(())
        });
        if arrived.is_err() {
            return errors.keep(arrived);
        }
        for &(plane, first, rows) in &chunk.rows {
            let DevicePlane { offset, stride } = staging.planes[plane];
            // SAFETY: rows of the block and of the plane; no other part has them, and the device
            // is done with them.
            unsafe {
                copy_rows(
                    pinned.at(offset + first * stride),
                    stride,
                    places[plane].at(first * strides[plane]),
                    strides[plane],
                    layout.planes[plane].row_bytes,
                    rows,
                );
            }
        }
    });
    errors.into_result()
}

/// # Safety
/// All rows must be valid at both ends, those of `to` in no other use.
unsafe fn copy_rows(
    from: *const u8,
    from_stride: usize,
    to: *mut u8,
    to_stride: usize,
    row_bytes: usize,
    rows: usize,
) {
    if from_stride == row_bytes && to_stride == row_bytes {
        // SAFETY: rows without gaps are one run; passed on to the caller.
        unsafe { to.copy_from_nonoverlapping(from, rows * row_bytes) };
        return;
    }
    for row in 0..rows {
        // SAFETY: passed on to the caller.
        unsafe {
            let (from, to) = (from.add(row * from_stride), to.add(row * to_stride));
            to.copy_from_nonoverlapping(from, row_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_whatever_the_strides() {
        let from: Vec<u8> = (0..60).collect();
        for (from_stride, to_stride) in [(5, 5), (7, 5), (5, 8), (7, 8)] {
            let mut to = vec![255; 60];
            // SAFETY: four rows of five bytes lie within both.
            unsafe { copy_rows(from.as_ptr(), from_stride, to.as_mut_ptr(), to_stride, 5, 4) };
            for (at, &byte) in to.iter().enumerate() {
                let (row, x) = (at / to_stride, at % to_stride);
                let expected = match row < 4 && x < 5 {
                    true => (row * from_stride + x) as u8,
                    false => 255,
                };
                assert_eq!(byte, expected, "{from_stride} {to_stride} at {at}");
            }
        }
    }
}
