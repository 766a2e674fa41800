//! Buffers whose VideoMeta claims any sizes, strides and offsets, with memories cut anywhere: refused
//! with a sentence, or filtered without a byte read or written outside the memory that is there, which
//! the address sanitizer watches.

#![no_main]

use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use cudaconv_fuzz::{ENGINE, format, info, run};
use gst::glib::translate::IntoGlib;
use gstcudaconv::element::allocation::{
    copy_picture, has_default_layout, into_buffer, map_input, map_output,
};
use gstcudaconv::engine::{Engine, Frame};
use gstcudaconv::filter::spec::{FilterSpec, Kernel};
use gstcudaconv::filter::{Layout, Plan};
use libfuzzer_sys::fuzz_target;

#[derive(Debug)]
struct Claim {
    format: gst_video::VideoFormat,
    width: u32,
    height: u32,
    offsets: [usize; 4],
    strides: [i32; 4],
}

#[derive(Debug)]
struct Described {
    /// Bytes of each memory.
    memories: Vec<usize>,
    claim: Option<Claim>,
}

#[derive(Debug)]
struct Input {
    info: gst_video::VideoInfo,
    kernel: Kernel,
    interlaced: bool,
    input: Described,
    output: Described,
}

/// A number near `of`, or any.
fn near(u: &mut Unstructured, of: usize) -> arbitrary::Result<usize> {
    Ok(match u.int_in_range(0..=7)? {
        0 => usize::arbitrary(u)?,
        1 => u.int_in_range(0..=5000)?,
        2 | 3 => of.saturating_add(u.int_in_range(0..=70)?),
        4 => of.saturating_sub(u.int_in_range(0..=3)?),
        _ => of,
    })
}

fn described(u: &mut Unstructured, info: &gst_video::VideoInfo) -> arbitrary::Result<Described> {
    let claim = if u.ratio(1, 5)? {
        None
    } else {
        let mut claim = Claim {
            format: if u.ratio(1, 12)? {
                format(u.arbitrary()?)
            } else {
                info.format()
            },
            width: near(u, info.width() as usize)? as u32,
            height: near(u, info.height() as usize)? as u32,
            offsets: [0; 4],
            strides: [0; 4],
        };
        for plane in 0..info.n_planes() as usize {
            claim.offsets[plane] = near(u, info.offset()[plane])?;
            claim.strides[plane] = near(u, info.stride()[plane] as usize)? as i32;
        }
        Some(claim)
    };
    let total = near(u, info.size())?.min(100_000);
    let mut memories = Vec::new();
    let mut left = total;
    while left > 0 && memories.len() < 4 && u.ratio(1, 3)? {
        let part = u.int_in_range(1..=left)?;
        memories.push(part);
        left -= part;
    }
    if left > 0 {
        memories.push(left);
    }
    Ok(Described { memories, claim })
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let format = format(u.arbitrary()?);
        let info = info(format, u.int_in_range(1..=70)?, u.int_in_range(1..=20)?);
        let kernels = [
            Kernel::Identity,
            Kernel::Gauss5,
            Kernel::Emboss,
            Kernel::Sobel,
            Kernel::Bilateral,
        ];
        Ok(Input {
            kernel: kernels[u.choose_index(kernels.len())?],
            interlaced: u.arbitrary()?,
            input: described(u, &info)?,
            output: described(u, &info)?,
            info,
        })
    }
}

fn buffer(described: &Described) -> gst::Buffer {
    let mut buffer = gst::Buffer::new();
    let writable = buffer.get_mut().expect("one owner");
    for size in &described.memories {
        writable.append_memory(gst::Memory::from_mut_slice(vec![0x77u8; *size]));
    }
    if let Some(claim) = &described.claim {
        // The binding's own function checks the claim; elements in C do not.
        // SAFETY: the buffer is writable, and both arrays have the four elements that are read.
        unsafe {
            gst_video::ffi::gst_buffer_add_video_meta_full(
                writable.as_mut_ptr(),
                0,
                claim.format.into_glib(),
                claim.width,
                claim.height,
                gst_video::VideoInfo::builder(claim.format, 4, 4)
                    .build()
                    .expect("a size")
                    .n_planes(),
                &raw const claim.offsets,
                &raw const claim.strides,
            );
        }
    }
    buffer
}

fuzz_target!(|input: Input| {
    let layout = Arc::new(Layout::new(&input.info).expect("a supported format"));
    let source = buffer(&input.input);
    let _ = has_default_layout(&source, &input.info);
    let target = buffer(&input.output);
    let frame = Frame {
        input: match map_input(source.clone(), &input.info, &layout) {
            Ok(frame) => frame,
            Err(error) => return assert!(error.to_string().len() > 10, "{error}"),
        },
        output: match map_output(target, &input.info, &layout) {
            Ok(frame) => frame,
            Err(error) => return assert!(error.to_string().len() > 10, "{error}"),
        },
        interlaced: input.interlaced,
    };
    let spec = FilterSpec {
        kernel: input.kernel,
        radius: 2,
        ..FilterSpec::default()
    };
    let plan = Plan::new(&spec, &layout, ENGINE.abilities()).expect("every engine does it");
    let done = run(&Arc::new(plan), frame);
    drop(done.input);
    let filtered = into_buffer(done.output);
    // A bypassed frame goes this way.
    let copied = copy_picture(source, filtered, &input.info, &layout);
    copied.expect("both were mapped before");
});
