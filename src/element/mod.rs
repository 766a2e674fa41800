//! The GStreamer face: pads, events, caps and buffers. Knows no CUDA and no arithmetic.
