//! Converts static files into a layer of an artifact, and a layer into a pack. A layer is a tar
//! archive, compressed with zstd.
//!
//! Files may be large, so they are read as streams.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use bytes::Bytes;
use tar::EntryType;
use tenon_assets::pack::{IGNORE_FILE, MAX_FILES, MAX_SITE_BYTES};
use tenon_assets::{PackError, Packer};

/// Maximum size of a compressed layer, in bytes.
pub const MAX_PACKED_ASSETS: usize = 512 << 20;

/// Level of compression. The level is low, because a site is packed at each deployment, and most of
/// its bytes are images that are compressed already.
const LEVEL: i32 = 3;

/// Base-2 logarithm of the maximum window of a compressed layer, in bytes. No level of zstd uses a
/// larger window.
const WINDOW_LOG_MAX: u32 = 27;

/// Maximum size of an extension header, in bytes. Such a header contains, for example, the path of
/// the next entry.
const MAX_EXTENSION: u64 = 16 * 1024;

/// Number of bytes that entries may take on average besides their content: the header, the headers
/// of a long name, and padding.
const ENTRY_OVERHEAD: u64 = 4 * 1024;

/// The reason why files cannot become a layer.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error("cannot pack {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(
        "the files take {0} bytes when compressed, more than {MAX_PACKED_ASSETS}; remove files"
    )]
    Packed(usize),
    #[error("cannot compress the files: {0}")]
    Compress(#[from] io::Error),
}

/// The reason why a layer cannot be packed as a site.
#[derive(Debug, thiserror::Error)]
pub enum AssetsError {
    #[error(transparent)]
    Pack(#[from] PackError),
    #[error("the layer is not a zstd-compressed tar archive: {0}")]
    Layer(#[from] io::Error),
    #[error("the layer contains {0:?}, which is not a regular file")]
    NotAFile(String),
}

/// Returns the layer with these files. Equal files have equal layers.
///
/// # Arguments
/// * `files` - for each file, its path in the site and its path on disk; sorted.
///
/// # Errors
/// Fails if a file cannot be read, or the layer is too large.
pub fn layer(files: &[(String, PathBuf)]) -> Result<Bytes, LayerError> {
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), LEVEL)?);
    for (name, path) in files {
        let unreadable = |source| LayerError::File { path: path.clone(), source };
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_size(file.metadata().map_err(unreadable)?.len());
        archive.append_data(&mut header, name, &mut file).map_err(unreadable)?;
        if archive.get_ref().get_ref().len() > MAX_PACKED_ASSETS {
            break;
        }
    }
    let layer = archive.into_inner()?.finish()?;
    if layer.len() > MAX_PACKED_ASSETS {
        return Err(LayerError::Packed(layer.len()));
    }
    Ok(layer.into())
}

/// Converts a layer into a pack, which `packer` writes. For any input, this function decompresses
/// no more bytes than the limits allow.
///
/// # Errors
/// Fails if the bytes are not a layer, the site exceeds a limit, or the pack cannot be written.
pub fn pack(layer: impl Read, mut packer: Packer) -> Result<(), AssetsError> {
    let mut decoder = zstd::Decoder::new(layer)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    let limit = MAX_SITE_BYTES + MAX_FILES as u64 * ENTRY_OVERHEAD;
    let mut archive = tar::Archive::new(decoder.take(limit));
    let mut long_path = None;
    // The entries are raw, because the library would read a path of any length into memory.
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        let type_ = entry.header().entry_type();
        match type_ {
            EntryType::GNULongName => {
                long_path = Some(extension(&mut entry)?);
                continue;
            }
            EntryType::XHeader => {
                long_path = pax_path(&extension(&mut entry)?).or(long_path);
                continue;
            }
            EntryType::XGlobalHeader => continue,
            _ => {}
        }
        let path = long_path.take().unwrap_or_else(|| entry.path_bytes().into_owned());
        let path = String::from_utf8_lossy(&path);
        let path = path.trim_end_matches('\0');
        match type_ {
            EntryType::Regular => {}
            // Archives of other tools have entries for folders.
            EntryType::Directory => continue,
            _ => return Err(AssetsError::NotAFile(path.to_owned())),
        }
        let (name, size) = (path.strip_prefix("./").unwrap_or(path), entry.size());
        let mut counted = Counted { content: &mut entry, bytes: 0 };
        packer.add(name, &mut counted)?;
        if counted.bytes != size && name != IGNORE_FILE {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    packer.finish()?;
    Ok(())
}

/// Returns the content of an extension header.
fn extension(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    entry.take(MAX_EXTENSION + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_EXTENSION {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a path is too long"));
    }
    Ok(content)
}

/// Returns the path in a PAX header, if there is one.
fn pax_path(header: &[u8]) -> Option<Vec<u8>> {
    let fields = tar::PaxExtensions::new(header).filter_map(Result::ok);
    let mut paths = fields.filter(|field| field.key_bytes() == b"path");
    paths.next().map(|field| field.value_bytes().to_vec())
}

/// A reader that counts the bytes that it has read.
struct Counted<R> {
    content: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use tenon_assets::Site;

    fn site_from_layer(layer: &[u8]) -> Result<Site, AssetsError> {
        let file = tempfile::tempfile().unwrap();
        pack(layer, Packer::new(file.try_clone().unwrap()))?;
        Ok(Site::of(file).unwrap())
    }

    #[test]
    fn a_folder_becomes_a_layer_and_a_site() {
        let folder = tempfile::tempdir().unwrap();
        let long = "long/".repeat(50) + "d.txt";
        let files =
            [("_headers", "/*\n  A: b\n"), ("a.txt", "hello"), ("b/c.txt", ""), (&long, "d")];
        let mut numbers = 0..;
        let files = files.map(|(name, content)| {
            let path = folder.path().join(numbers.next().unwrap_or(0).to_string());
            fs::write(&path, content).unwrap();
            (name.to_owned(), path)
        });
        let layer = layer(&files).unwrap();
        assert_eq!(layer, self::layer(&files).unwrap());
        let site = site_from_layer(&layer).unwrap();
        assert_eq!((site.file_count(), site.file("a.txt").unwrap().length), (3, 5));
        assert_eq!(site.file(&long).unwrap().length, 1);
        for cut in 0..layer.len() {
            assert!(
                site_from_layer(&layer[..cut]).is_err(),
                "a layer of only {cut} bytes was packed"
            );
        }
    }

    #[test]
    fn a_layer_with_a_link_is_refused() {
        let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, "a", "/etc/passwd").unwrap();
        let layer = archive.into_inner().unwrap().finish().unwrap();
        assert!(matches!(site_from_layer(&layer), Err(AssetsError::NotAFile(name)) if name == "a"));
    }

    #[test]
    fn a_path_may_be_in_a_pax_header_of_limited_length() {
        let with = |extension: EntryType, content: &[u8]| {
            let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
            for (type_, content) in [(extension, content), (EntryType::Regular, b"x")] {
                let mut header = tar::Header::new_gnu();
                header.set_entry_type(type_);
                header.set_size(content.len() as u64);
                archive.append_data(&mut header, "short", content).unwrap();
            }
            site_from_layer(&archive.into_inner().unwrap().finish().unwrap())
        };
        let site = with(EntryType::XHeader, b"14 path=a/b/c\n").unwrap();
        assert_eq!(site.file("a/b/c").unwrap().length, 1);
        for type_ in [EntryType::XHeader, EntryType::GNULongName] {
            assert!(matches!(with(type_, &[b'a'; 1 << 20]), Err(AssetsError::Layer(_))));
        }
    }

    #[test]
    fn a_layer_that_unpacks_to_more_than_the_limit_is_refused() {
        let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        let zeros = vec![0; 20 << 20];
        for file in 0..30 {
            let mut header = tar::Header::new_gnu();
            header.set_size(zeros.len() as u64);
            archive.append_data(&mut header, file.to_string(), &zeros[..]).unwrap();
        }
        let layer = archive.into_inner().unwrap().finish().unwrap();
        assert!(matches!(site_from_layer(&layer), Err(AssetsError::Pack(PackError::Site))));
        let mut other = zstd::Encoder::new(Vec::new(), 1).unwrap();
        other.write_all(b"no archive").unwrap();
        assert!(site_from_layer(&other.finish().unwrap()).is_err());
    }
}
