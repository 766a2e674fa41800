//! What is measured: a fixed set of streams.

use std::fmt;

use gstcudaconv::filter::FilterSpec;
use gstcudaconv::filter::spec::Kernel;

use super::line::{self, Memory};

/// How frames come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Each when the one before is out.
    Single,
    /// 60 a second, each when the one before is out: the machine has time to fall asleep.
    Live,
    /// As fast as they are taken.
    File,
}

/// A kind of stream, and how many of them run at once.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub backend: &'static str,
    pub kernel: Kernel,
    pub radius: u32,
    pub format: &'static str,
    pub width: u32,
    pub height: u32,
    pub memory: Memory,
    pub pace: Pace,
    pub depth: u32,
    pub instances: usize,
}

impl fmt::Display for Scenario {
    /// Its name in baselines.
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Scenario {
            backend,
            format,
            width,
            height,
            instances,
            ..
        } = self;
        write!(out, "{backend}/{}", self.kernel.nick())?;
        if self.radius > 0 {
            write!(out, "-r{}", self.radius)?;
        }
        write!(out, "/{format}/{width}x{height}/")?;
        out.write_str(match self.pace {
            Pace::Single => "single",
            Pace::Live => "live",
            Pace::File => "file",
        })?;
        if self.backend == "cuda" && self.memory == Memory::Foreign {
            out.write_str("/foreign")?;
        }
        match instances {
            1 => Ok(()),
            _ => write!(out, "/{instances} at once"),
        }
    }
}

impl Scenario {
    /// One stream of small grey frames, one at a time.
    pub fn small(backend: &'static str) -> Scenario {
        Scenario {
            backend,
            kernel: Kernel::Gauss3,
            radius: 0,
            format: "GRAY8",
            width: 320,
            height: 240,
            memory: Memory::Foreign,
            pace: Pace::Single,
            depth: 2,
            instances: 1,
        }
    }

    pub fn caps(&self) -> gst::Caps {
        line::caps(self.format, self.width, self.height)
    }

    pub fn spec(&self) -> FilterSpec {
        FilterSpec {
            kernel: self.kernel,
            radius: self.radius,
            ..FilterSpec::default()
        }
    }

    /// The element, which tells of every frame.
    pub fn element(&self) -> gst::Element {
        gst::ElementFactory::make("cudaconv")
            .property_from_str("backend", self.backend)
            .property_from_str("kernel", &self.kernel.nick())
            .property("radius", self.radius as i32)
            .property("depth", self.depth)
            .property("post-messages", true)
            .build()
            .expect("the factory makes an element")
    }
}

/// Those for the CPU.
pub fn of_cpu() -> Vec<Scenario> {
    let base = Scenario::small("cpu");
    let of = |kernel, radius, format, (width, height), pace| Scenario {
        kernel,
        radius,
        format,
        width,
        height,
        pace,
        ..base.clone()
    };
    let vga = (640, 480);
    vec![
        of(Kernel::Identity, 0, "I420", (1920, 1080), Pace::Single),
        of(Kernel::Gauss3, 0, "GRAY8", vga, Pace::Single),
        of(Kernel::Gauss3, 0, "I420", (1280, 720), Pace::Single),
        of(Kernel::Gauss7, 0, "NV12", (1280, 720), Pace::Single),
        of(Kernel::Sobel, 0, "RGBA", vga, Pace::Single),
        of(Kernel::Emboss, 0, "I420_10LE", vga, Pace::Single),
        of(Kernel::Bilateral, 5, "GRAY8", (320, 240), Pace::Single),
        of(Kernel::Bilateral, 3, "RGBA", (320, 240), Pace::Single),
        of(Kernel::Gauss3, 0, "I420", vga, Pace::Live),
        of(Kernel::Gauss3, 0, "I420", vga, Pace::File),
        of(Kernel::Bilateral, 5, "GRAY8", (320, 240), Pace::File),
        Scenario {
            instances: 8,
            ..of(Kernel::Gauss3, 0, "I420", (320, 240), Pace::Single)
        },
    ]
}

/// Those for a GPU.
pub fn of_gpu() -> Vec<Scenario> {
    let base = Scenario {
        memory: Memory::Pinned,
        ..Scenario::small("cuda")
    };
    let of = |kernel, radius, format, (width, height), pace| Scenario {
        kernel,
        radius,
        format,
        width,
        height,
        pace,
        ..base.clone()
    };
    let (vga, hd, uhd) = ((640, 480), (1920, 1080), (3840, 2160));
    vec![
        of(Kernel::Gauss3, 0, "GRAY8", vga, Pace::Single),
        of(Kernel::Gauss3, 0, "GRAY8", hd, Pace::Single),
        of(Kernel::Gauss7, 0, "NV12", hd, Pace::Single),
        of(Kernel::Sobel, 0, "RGBA", hd, Pace::Single),
        of(Kernel::Gauss3, 0, "RGBA", uhd, Pace::Single),
        of(Kernel::Emboss, 0, "P010_10LE", hd, Pace::Single),
        of(Kernel::Bilateral, 7, "GRAY8", hd, Pace::Single),
        of(Kernel::Bilateral, 7, "RGBA", hd, Pace::Single),
        of(Kernel::Gauss3, 0, "NV12", hd, Pace::Live),
        of(Kernel::Gauss3, 0, "NV12", hd, Pace::File),
        of(Kernel::Bilateral, 7, "GRAY8", hd, Pace::File),
        Scenario {
            memory: Memory::Foreign,
            ..of(Kernel::Gauss3, 0, "RGBA", hd, Pace::Single)
        },
        Scenario {
            instances: 8,
            ..of(Kernel::Gauss3, 0, "NV12", hd, Pace::Single)
        },
    ]
}
