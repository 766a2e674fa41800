//! Addresses of streams that come and go over a network.

use crate::templates::{self, TemplateError, quote_text};

/// Milliseconds that packets may be late: enough for a local network, and hardly to be seen.
const DELAY: &str = "100";

/// What stands in front of the address.
const RTP: &str = "rtp://";
const SRT: &str = "srt://";

/// An address that is none.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is no address of a stream; accepted are rtp://HOST:PORT, srt://HOST:PORT and srt://:PORT"
)]
pub struct AddressError(String);

/// A UDP port, of this machine where packets are received and of another where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rtp {
    pub host: String,
    pub port: u16,
}

/// Whether `text` is meant as the address of a stream that can be sent.
pub fn is_destination(text: &str) -> bool {
    text.starts_with(RTP) || text.starts_with(SRT)
}

/// The pipeline description that gives the video of a network camera: `rtsp://…`, or `rtp://:PORT`
/// for one that sends of its own accord. `None` where `text` is no such address.
pub fn camera(text: &str) -> Option<Result<String, String>> {
    if text.starts_with("rtsp://") || text.starts_with("rtsps://") {
        let uri = quote_text(text);
        let values = [("uri", uri.as_str()), ("delay", DELAY)];
        let filled = templates::fill(templates::NETWORK_CAMERA, &values);
        return Some(filled.map_err(|error| error.to_string()));
    }
    let rtp = Rtp::parse(text)?.map_err(|error| error.to_string());
    Some(rtp.and_then(|rtp| rtp.source().map_err(|error| error.to_string())))
}

impl Rtp {
    /// Reads `rtp://HOST:PORT`; `None` where it is no such address at all. An IPv6 address stands in
    /// brackets.
    ///
    /// # Errors
    /// When host or port are missing or make no sense.
    pub fn parse(text: &str) -> Option<Result<Rtp, AddressError>> {
        let rest = text.strip_prefix(RTP)?.trim_end_matches('/');
        let parsed = rest.rsplit_once(':').and_then(|(host, port)| {
            let host = match host.strip_prefix('[') {
                Some(host) => host.strip_suffix(']')?,
                None => host,
            };
            let port = port.parse().ok().filter(|port| *port > 0)?;
            let names = |c: char| c.is_ascii_alphanumeric() || ".-:_%".contains(c);
            (host.chars().all(names)).then(|| Rtp {
                host: host.to_owned(),
                port,
            })
        });
        Some(parsed.ok_or_else(|| AddressError(text.to_owned())))
    }

    /// The pipeline description that receives from it.
    ///
    /// # Errors
    /// When the template asks for something unknown.
    pub fn source(&self) -> Result<String, TemplateError> {
        let address = match self.host.as_str() {
            "" => "0.0.0.0",
            host => host,
        };
        let values = [
            ("address", quote_text(address)),
            ("port", self.port.to_string()),
            ("delay", DELAY.to_owned()),
        ];
        let values = values
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        templates::fill(templates::RTP_RECEIVE, &values)
    }

    fn sink(&self, encoder: &str) -> Result<String, TemplateError> {
        let (host, port) = (quote_text(&self.host), self.port.to_string());
        let values = [("encoder", encoder), ("host", &host), ("port", &port)];
        templates::fill(templates::RTP_SEND, &values)
    }
}

/// Where a stream is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    Rtp(Rtp),
    Srt(String),
}

impl Destination {
    /// # Errors
    /// When it is no address that a stream can be sent to.
    pub fn parse(text: &str) -> Result<Destination, AddressError> {
        match Rtp::parse(text) {
            Some(Ok(rtp)) if !rtp.host.is_empty() => Ok(Destination::Rtp(rtp)),
            Some(_) => Err(AddressError(text.to_owned())),
            None if srt_port(text).is_some() => Ok(Destination::Srt(text.to_owned())),
            None => Err(AddressError(text.to_owned())),
        }
    }

    /// The pipeline description that sends there what `encoder` makes.
    ///
    /// # Errors
    /// When the template asks for something unknown.
    pub fn sink(&self, encoder: &str) -> Result<String, TemplateError> {
        match self {
            Destination::Rtp(rtp) => rtp.sink(encoder),
            Destination::Srt(uri) => {
                let uri = quote_text(uri);
                let values = [("encoder", encoder), ("uri", &uri)];
                templates::fill(templates::SRT_SEND, &values)
            }
        }
    }

    /// The elements that it needs besides the encoder.
    pub fn elements(&self) -> &'static [&'static str] {
        match self {
            Destination::Rtp(_) => &["h264parse", "rtph264pay", "udpsink"],
            Destination::Srt(_) => &["h264parse", "mpegtsmux", "srtsink"],
        }
    }
}

/// The port in `srt://HOST:PORT?option=value`.
fn srt_port(text: &str) -> Option<u16> {
    let rest = text.strip_prefix(SRT)?;
    let address = rest.split(['?', '/']).next()?;
    let (_, port) = address.rsplit_once(':')?;
    port.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        let rtp = |host: &str, port| Rtp {
            host: host.to_owned(),
            port,
        };
        assert_eq!(
            Rtp::parse("rtp://10.0.0.2:5004"),
            Some(Ok(rtp("10.0.0.2", 5004)))
        );
        assert_eq!(Rtp::parse("rtp://:5004/"), Some(Ok(rtp("", 5004))));
        assert_eq!(
            Rtp::parse("rtp://[ff02::1]:5004"),
            Some(Ok(rtp("ff02::1", 5004)))
        );
        assert_eq!(Rtp::parse("rtsp://host/stream"), None);
        for bad in [
            "rtp://host",
            "rtp://host:0",
            "rtp://host:99999",
            "rtp://a b:5",
            "rtp://x!y:5",
        ] {
            assert!(matches!(Rtp::parse(bad), Some(Err(_))), "{bad}");
        }
    }

    #[test]
    fn a_camera_is_asked_or_listened_to() {
        gst::init().unwrap();
        let asked = camera("rtsp://user:pass word@host/a b?c=d&e")
            .unwrap()
            .unwrap();
        assert!(
            asked.contains("location=\"rtsp://user:pass word@host/a b?c=d&e\""),
            "{asked}"
        );
        assert!(
            camera("rtp://:5004")
                .unwrap()
                .unwrap()
                .contains("port=5004")
        );
        assert!(camera("rtp://host").unwrap().is_err());
        assert_eq!(camera("/dev/video0"), None);
    }

    #[test]
    fn a_stream_is_sent_to_somebody_or_waits_to_be_called() {
        gst::init().unwrap();
        for good in [
            "rtp://host:5004",
            "srt://host:5005",
            "srt://:5005",
            "srt://:5005?latency=50",
        ] {
            let destination = Destination::parse(good).unwrap();
            let sink = destination.sink("x264enc").unwrap();
            assert!(is_destination(good) && sink.contains("h264parse"), "{sink}");
        }
        for bad in ["rtp://:5004", "srt://host", "srt://", "udp://host:5"] {
            assert!(Destination::parse(bad).is_err(), "{bad}");
        }
    }
}
