//! Buffer pools as downstream elements offer them: padded, refusing, bounded, short of memory.

use gst::glib;
use gst::prelude::*;
use gst::subclass::prelude::*;
use gst_video::prelude::*;

/// Bytes before the first row of a padded buffer.
pub const LEAD: usize = 48;
/// Bytes after each row of a padded plane.
pub const PADDING: usize = 40;
/// What the bytes outside of the picture hold; nobody may write there.
pub const GUARD: u8 = 0xa5;

mod imp {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Condvar, Mutex};

    /// Buffers whose planes start late and whose rows are longer than needed, as VideoMeta says.
    #[derive(Default)]
    pub struct PaddedPool {
        info: Mutex<Option<gst_video::VideoInfo>>,
        pub(super) acquired: AtomicUsize,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for PaddedPool {
        const NAME: &'static str = "CudaConvTestPaddedPool";
        type Type = super::PaddedPool;
        type ParentType = gst::BufferPool;
    }

    impl ObjectImpl for PaddedPool {}
    impl GstObjectImpl for PaddedPool {}

    impl BufferPoolImpl for PaddedPool {
        fn options() -> &'static [&'static str] {
            &["GstBufferPoolOptionVideoMeta"]
        }

        fn set_config(&self, config: &mut gst::BufferPoolConfigRef) -> bool {
            let Some((Some(caps), _, min, max)) = config.params() else {
                return false;
            };
            let Ok(info) = gst_video::VideoInfo::from_caps(&caps) else {
                return false;
            };
            // To which buffers that come back are cut.
            let (_, _, size) = super::padded_layout(&info);
            config.set_params(Some(&caps), size as u32, min, max);
            *self.info.lock().expect("not poisoned") = Some(info);
            config.has_option(gst_video::BUFFER_POOL_OPTION_VIDEO_META)
                && self.parent_set_config(config)
        }

        fn acquire_buffer(
            &self,
            params: Option<&gst::BufferPoolAcquireParams>,
        ) -> Result<gst::Buffer, gst::FlowError> {
            self.acquired.fetch_add(1, Ordering::SeqCst);
            self.parent_acquire_buffer(params)
        }

        fn alloc_buffer(
            &self,
            _params: Option<&gst::BufferPoolAcquireParams>,
        ) -> Result<gst::Buffer, gst::FlowError> {
            let info = self.info.lock().expect("not poisoned").clone();
            super::padded_buffer(&info.ok_or(gst::FlowError::NotNegotiated)?)
                .ok_or(gst::FlowError::Error)
        }

        fn reset_buffer(&self, buffer: &mut gst::BufferRef) {
            // Which takes its metas away.
            self.parent_reset_buffer(buffer);
            if let Some(info) = &*self.info.lock().expect("not poisoned") {
                let _ = super::describe(buffer, info);
            }
        }
    }

    /// A pool that takes no configuration.
    #[derive(Default)]
    pub struct RefusingPool;

    #[glib::object_subclass]
    impl ObjectSubclass for RefusingPool {
        const NAME: &'static str = "CudaConvTestRefusingPool";
        type Type = super::RefusingPool;
        type ParentType = gst::BufferPool;
    }

    impl ObjectImpl for RefusingPool {}
    impl GstObjectImpl for RefusingPool {}

    impl BufferPoolImpl for RefusingPool {
        fn set_config(&self, _config: &mut gst::BufferPoolConfigRef) -> bool {
            false
        }
    }

    /// A pool that cannot be started.
    #[derive(Default)]
    pub struct InertPool;

    #[glib::object_subclass]
    impl ObjectSubclass for InertPool {
        const NAME: &'static str = "CudaConvTestInertPool";
        type Type = super::InertPool;
        type ParentType = gst::BufferPool;
    }

    impl ObjectImpl for InertPool {}
    impl GstObjectImpl for InertPool {}

    impl BufferPoolImpl for InertPool {
        fn start(&self) -> bool {
            false
        }
    }

    /// A pool that has nothing and waits for some until a flush, whatever it is asked.
    #[derive(Default)]
    pub struct StubbornPool {
        pub(super) state: Mutex<Stubborn>,
        pub(super) changed: Condvar,
    }

    #[derive(Default)]
    pub struct Stubborn {
        pub(super) asked: bool,
        flushing: bool,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for StubbornPool {
        const NAME: &'static str = "CudaConvTestStubbornPool";
        type Type = super::StubbornPool;
        type ParentType = gst::BufferPool;
    }

    impl ObjectImpl for StubbornPool {}
    impl GstObjectImpl for StubbornPool {}

    impl BufferPoolImpl for StubbornPool {
        fn acquire_buffer(
            &self,
            _params: Option<&gst::BufferPoolAcquireParams>,
        ) -> Result<gst::Buffer, gst::FlowError> {
            let mut state = self.state.lock().expect("not poisoned");
            state.asked = true;
            self.changed.notify_all();
            let waited = self.changed.wait_while(state, |state| !state.flushing);
            drop(waited.expect("not poisoned"));
            Err(gst::FlowError::Flushing)
        }

        fn flush_start(&self) {
            self.state.lock().expect("not poisoned").flushing = true;
            self.changed.notify_all();
        }

        fn flush_stop(&self) {
            self.state.lock().expect("not poisoned").flushing = false;
        }
    }

    /// A pool whose buffers somebody else makes, from their size.
    #[derive(Default)]
    pub struct MadePool {
        pub(super) maker: std::sync::OnceLock<Box<dyn Fn(usize) -> gst::Buffer + Send + Sync>>,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for MadePool {
        const NAME: &'static str = "CudaConvTestMadePool";
        type Type = super::MadePool;
        type ParentType = gst::BufferPool;
    }

    impl ObjectImpl for MadePool {}
    impl GstObjectImpl for MadePool {}

    impl BufferPoolImpl for MadePool {
        fn alloc_buffer(
            &self,
            _params: Option<&gst::BufferPoolAcquireParams>,
        ) -> Result<gst::Buffer, gst::FlowError> {
            let config = self.obj().config();
            let (_, size, _, _) = config.params().ok_or(gst::FlowError::NotNegotiated)?;
            let maker = self.maker.get().ok_or(gst::FlowError::Error)?;
            Ok(maker(size as usize))
        }
    }

    /// A pool that gets memory for so many buffers and no more.
    #[derive(Default)]
    pub struct ShortPool {
        pub(super) left: AtomicUsize,
    }

    #[glib::object_subclass]
    impl ObjectSubclass for ShortPool {
        const NAME: &'static str = "CudaConvTestShortPool";
        type Type = super::ShortPool;
        type ParentType = gst::BufferPool;
    }

    impl ObjectImpl for ShortPool {}
    impl GstObjectImpl for ShortPool {}

    impl BufferPoolImpl for ShortPool {
        fn alloc_buffer(
            &self,
            params: Option<&gst::BufferPoolAcquireParams>,
        ) -> Result<gst::Buffer, gst::FlowError> {
            let take = |left: usize| left.checked_sub(1);
            self.left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .map_err(|_| gst::FlowError::Error)?;
            self.parent_alloc_buffer(params)
        }
    }

    /// An allocator that has no memory.
    #[derive(Default)]
    pub struct EmptyAllocator;

    #[glib::object_subclass]
    impl ObjectSubclass for EmptyAllocator {
        const NAME: &'static str = "CudaConvTestEmptyAllocator";
        type Type = super::EmptyAllocator;
        type ParentType = gst::Allocator;
    }

    impl ObjectImpl for EmptyAllocator {}
    impl GstObjectImpl for EmptyAllocator {}

    // SAFETY: no memory is a valid answer, and so none ever comes back to be freed.
    unsafe impl AllocatorImpl for EmptyAllocator {
        unsafe fn alloc(
            &self,
            _size: usize,
            _params: &gst::AllocationParams,
        ) -> *mut gst::ffi::GstMemory {
            std::ptr::null_mut()
        }
    }
}

glib::wrapper! {
    pub struct PaddedPool(ObjectSubclass<imp::PaddedPool>) @extends gst::BufferPool, gst::Object;
}
glib::wrapper! {
    pub struct RefusingPool(ObjectSubclass<imp::RefusingPool>) @extends gst::BufferPool, gst::Object;
}
glib::wrapper! {
    pub struct InertPool(ObjectSubclass<imp::InertPool>) @extends gst::BufferPool, gst::Object;
}

glib::wrapper! {
    pub struct StubbornPool(ObjectSubclass<imp::StubbornPool>) @extends gst::BufferPool, gst::Object;
}

glib::wrapper! {
    pub struct MadePool(ObjectSubclass<imp::MadePool>) @extends gst::BufferPool, gst::Object;
}

glib::wrapper! {
    pub struct ShortPool(ObjectSubclass<imp::ShortPool>) @extends gst::BufferPool, gst::Object;
}

glib::wrapper! {
    pub struct EmptyAllocator(ObjectSubclass<imp::EmptyAllocator>) @extends gst::Allocator, gst::Object;
}

impl PaddedPool {
    pub fn make() -> gst::BufferPool {
        glib::Object::new::<PaddedPool>().upcast()
    }

    /// How many buffers were asked of such a pool.
    pub fn acquired(pool: &gst::BufferPool) -> usize {
        let pool = pool.downcast_ref::<PaddedPool>().expect("a padded pool");
        pool.imp()
            .acquired
            .load(std::sync::atomic::Ordering::SeqCst)
    }
}

impl RefusingPool {
    pub fn make() -> gst::BufferPool {
        glib::Object::new::<RefusingPool>().upcast()
    }
}

impl InertPool {
    pub fn make() -> gst::BufferPool {
        glib::Object::new::<InertPool>().upcast()
    }
}

impl StubbornPool {
    pub fn make() -> gst::BufferPool {
        glib::Object::new::<StubbornPool>().upcast()
    }

    /// Waits until a buffer was asked of such a pool.
    pub fn wait_asked(pool: &gst::BufferPool) {
        let pool = pool
            .downcast_ref::<StubbornPool>()
            .expect("a stubborn pool");
        let state = pool.imp().state.lock().expect("not poisoned");
        let asked = pool.imp().changed.wait_while(state, |state| !state.asked);
        drop(asked.expect("not poisoned"));
    }
}

impl MadePool {
    pub fn make(maker: impl Fn(usize) -> gst::Buffer + Send + Sync + 'static) -> gst::BufferPool {
        let pool = glib::Object::new::<MadePool>();
        let set = pool.imp().maker.set(Box::new(maker));
        assert!(set.is_ok(), "a new pool has no maker");
        pool.upcast()
    }
}

impl EmptyAllocator {
    pub fn make() -> gst::Allocator {
        glib::Object::new::<EmptyAllocator>().upcast()
    }
}

impl ShortPool {
    /// A pool with memory for `buffers`.
    pub fn make(buffers: usize) -> gst::BufferPool {
        let pool = glib::Object::new::<ShortPool>();
        let left = &pool.imp().left;
        left.store(buffers, std::sync::atomic::Ordering::SeqCst);
        pool.upcast()
    }
}

/// Says in a VideoMeta how a padded buffer of `info` is laid out.
fn describe(buffer: &mut gst::BufferRef, info: &gst_video::VideoInfo) -> Option<()> {
    let (offsets, strides, _) = padded_layout(info);
    gst_video::VideoMeta::add_full(
        buffer,
        gst_video::VideoFrameFlags::empty(),
        info.format(),
        info.width(),
        info.height(),
        &offsets,
        &strides,
    )
    .ok()
    .map(|_| ())
}

/// Offsets and strides of the planes of a padded buffer of `info`, and its size.
fn padded_layout(info: &gst_video::VideoInfo) -> (Vec<usize>, Vec<i32>, usize) {
    let planes = info.n_planes() as usize;
    let mut offsets = Vec::with_capacity(planes);
    let mut strides = Vec::with_capacity(planes);
    let mut end = LEAD;
    for plane in 0..planes {
        let stride = info.stride()[plane] as usize + PADDING;
        let plane_end = match info.offset().get(plane + 1) {
            Some(next) => *next,
            None => info.size(),
        };
        let rows = (plane_end - info.offset()[plane]) / info.stride()[plane] as usize;
        offsets.push(end);
        strides.push(stride as i32);
        end += stride * rows + LEAD;
    }
    (offsets, strides, end)
}

/// A buffer of `info` with a lead, padded rows, and guard bytes wherever there is no pixel.
pub fn padded_buffer(info: &gst_video::VideoInfo) -> Option<gst::Buffer> {
    let (_, _, size) = padded_layout(info);
    let mut buffer = gst::Buffer::from_mut_slice(vec![GUARD; size]);
    describe(buffer.get_mut()?, info)?;
    Some(buffer)
}

/// Copies the picture of `tight` (default strides) into a padded buffer with the same flags and
/// times.
pub fn padded_copy(caps: &gst::Caps, tight: &gst::Buffer) -> gst::Buffer {
    let info = gst_video::VideoInfo::from_caps(caps).expect("caps of raw video");
    let mut padded = padded_buffer(&info).expect("a padded buffer");
    {
        let target = padded.get_mut().expect("one owner");
        tight
            .copy_into(
                target,
                gst::BufferCopyFlags::TIMESTAMPS | gst::BufferCopyFlags::FLAGS,
                ..,
            )
            .expect("times are copied");
        let source = gst_video::VideoFrameRef::from_buffer_ref_readable(tight, &info)
            .expect("the tight buffer maps");
        let mut target = gst_video::VideoFrameRef::from_buffer_ref_writable(target, &info)
            .expect("the padded buffer maps");
        for plane in 0..info.n_planes() {
            let rows = target.plane_data(plane).map_or(0, <[u8]>::len)
                / target.plane_stride()[plane as usize] as usize;
            let from = source.plane_stride()[plane as usize] as usize;
            let to = target.plane_stride()[plane as usize] as usize;
            let source = source.plane_data(plane).expect("a plane");
            let target = target.plane_data_mut(plane).expect("a plane");
            for row in 0..rows.min(source.len() / from) {
                target[row * to..][..from].copy_from_slice(&source[row * from..][..from]);
            }
        }
    }
    padded
}

/// Whether every byte before the first row of a padded buffer is as it was.
pub fn lead_untouched(buffer: &gst::Buffer) -> bool {
    let map = buffer.map_readable().expect("the buffer maps");
    map.iter().take(LEAD).all(|byte| *byte == GUARD)
}
