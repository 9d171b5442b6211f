//! Contents in the codings that clients accept. A content is compressed once for each coding, after
//! a client that accepts the coding has requested the file, on another thread, which compresses one
//! file at a time. Until then, clients get the uncompressed content.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use flate2::write::GzEncoder;
use moka::sync::Cache;
use tenon_assets::{File, Site};
use tenon_compression::Coding;
use tokio::task::spawn_blocking;

/// The maximum memory for compressed contents, in bytes.
const CAPACITY: u64 = 64 << 20;

/// The sizes of files that are worth compressing, in bytes. A smaller file fits into one packet
/// anyway, and a larger file would occupy the thread for seconds.
const SIZES: std::ops::RangeInclusive<u32> = 512..=4 << 20;

/// An estimate of the memory that an entry takes besides its content, in bytes.
const ENTRY: usize = 128;

/// The minimum fraction of the content's size that compression must save.
const MIN_SAVING: f64 = 0.1;

/// The hash of the uncompressed content, and a coding.
type Key = ([u8; 16], Coding);

/// The compressed contents of all sites.
#[derive(Clone)]
pub(crate) struct Compressed {
    /// The compressed content, or `None` if compression has failed or saves less than
    /// [`MIN_SAVING`].
    contents: Cache<Key, Option<Bytes>>,
    is_busy: Arc<AtomicBool>,
}

impl Default for Compressed {
    fn default() -> Self {
        let weight = |_: &Key, content: &Option<Bytes>| {
            u32::try_from(content.as_ref().map_or(0, Bytes::len) + ENTRY).unwrap_or(u32::MAX)
        };
        let contents = Cache::builder().weigher(weight).max_capacity(CAPACITY).build();
        Self { contents, is_busy: Arc::default() }
    }
}

impl Compressed {
    /// Returns a file's content in a coding, if it has been compressed and is smaller. If the
    /// content has not been compressed yet, begins to compress it, unless another file is being
    /// compressed or the size of the content is not in [`SIZES`].
    pub(crate) fn get(&self, site: &Arc<Site>, file: &File<'_>, coding: Coding) -> Option<Bytes> {
        if !SIZES.contains(&file.length) {
            return None;
        }
        let key = (file.hash, coding);
        let known = self.contents.get(&key);
        if known.is_none() && !self.is_busy.swap(true, Ordering::Relaxed) {
            let (this, site) = (self.clone(), site.clone());
            let (offset, length) = (file.offset, file.length as usize);
            spawn_blocking(move || {
                let busy = Busy(&this.is_busy);
                let compressed = compress(&site, offset, length, coding)
                    .inspect_err(|error| tracing::warn!(%error, "cannot compress a static file"));
                this.contents.insert(key, compressed.unwrap_or_default());
                drop(busy);
            });
        }
        known.flatten()
    }
}

struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn compress(site: &Site, offset: u64, length: usize, coding: Coding) -> io::Result<Option<Bytes>> {
    let mut content = vec![0; length];
    site.pack().read_exact_at(&mut content, offset)?;
    let encoded = encode(&content, coding)?;
    let is_smaller = (encoded.len() as f64) < length as f64 * (1.0 - MIN_SAVING);
    Ok(is_smaller.then(|| encoded.into()))
}

/// Encodes content at a higher level than responses, because a file is compressed once and sent
/// often.
fn encode(content: &[u8], coding: Coding) -> io::Result<Vec<u8>> {
    match coding {
        Coding::Brotli => {
            const QUALITY: u32 = 6;
            // The binary logarithm of 4 MiB.
            const WINDOW: u32 = 22;
            const BUFFER: usize = 4096;
            let mut writer = brotli::CompressorWriter::new(Vec::new(), BUFFER, QUALITY, WINDOW);
            writer.write_all(content)?;
            Ok(writer.into_inner())
        }
        Coding::Zstd => {
            const LEVEL: i32 = 9;
            zstd::bulk::compress(content, LEVEL)
        }
        Coding::Gzip => {
            const LEVEL: u32 = 6;
            let mut writer = GzEncoder::new(Vec::new(), flate2::Compression::new(LEVEL));
            writer.write_all(content)?;
            writer.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn every_coding_can_be_decoded() {
        let content = b"static files ".repeat(100);
        let encoded = |coding| encode(&content, coding).unwrap();
        let mut decoded = Vec::new();
        brotli::Decompressor::new(&encoded(Coding::Brotli)[..], 4096)
            .read_to_end(&mut decoded)
            .unwrap();
        assert_eq!(decoded, content);
        let mut decoded = Vec::new();
        flate2::read::GzDecoder::new(&encoded(Coding::Gzip)[..]).read_to_end(&mut decoded).unwrap();
        assert_eq!(decoded, content);
        assert_eq!(zstd::decode_all(&encoded(Coding::Zstd)[..]).unwrap(), content);
    }
}
