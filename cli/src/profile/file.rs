//! Writes a compressed profile to a file, as it arrives.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use flate2::write::GzDecoder;
use tempfile::NamedTempFile;
use tenon_runtime_node::profile::MAX_SIZE;

/// A profile that is being written. The file gets its name when the profile is complete, and only
/// its owner can read it.
pub(super) struct ProfileFile {
    path: PathBuf,
    decoder: GzDecoder<Bounded<NamedTempFile>>,
}

impl ProfileFile {
    /// Creates a temporary file beside the file to write.
    ///
    /// # Errors
    /// Fails if the directory does not exist or is not writable.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let file = NamedTempFile::new_in(directory.unwrap_or(Path::new(".")));
        let file = file
            .with_context(|| format!("cannot write {}; choose another --output", path.display()))?;
        let decoder = GzDecoder::new(Bounded { inner: file, left: MAX_SIZE });
        Ok(Self { path: path.to_owned(), decoder })
    }

    /// Writes a piece of the compressed profile.
    ///
    /// # Errors
    /// Fails if the piece is malformed, the profile is too large, or the file cannot be written.
    pub(super) fn write(&mut self, piece: &[u8]) -> anyhow::Result<()> {
        self.decoder.write_all(piece).map_err(|error| self.unwritable(&error))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Fails if the profile is incomplete, or the file cannot be written.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.decoder.try_finish().map_err(|error| self.unwritable(&error))?;
        let Self { path, decoder } = self;
        let file = decoder.finish().map(|bounded| bounded.inner);
        file.and_then(|file| file.persist(&path).map_err(|error| error.error))
            .with_context(|| format!("cannot write {}", path.display()))
            .map(drop)
    }

    fn unwritable(&self, error: &io::Error) -> anyhow::Error {
        anyhow!("cannot write {}: {error}", self.path.display())
    }
}

/// A writer that accepts a limited number of bytes, because a small compressed profile may expand
/// to a large one.
struct Bounded<W> {
    inner: W,
    /// Number of bytes that may still be written.
    left: usize,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.left {
            return Err(io::Error::other("the profile is larger than a node may send"));
        }
        let written = self.inner.write(bytes)?;
        self.left -= written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn compressed(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_complete_profile_is_a_file_that_only_its_owner_can_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cart.cpuprofile");
        let mut file = ProfileFile::create(&path).unwrap();
        for piece in compressed(b"{\"nodes\":[]}").chunks(7) {
            assert!(!path.exists());
            file.write(piece).unwrap();
        }
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"{\"nodes\":[]}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn an_incomplete_or_malformed_profile_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cart.cpuprofile");
        let piece = compressed(b"{}");
        let mut file = ProfileFile::create(&path).unwrap();
        file.write(&piece[..piece.len() - 9]).unwrap();
        assert!(file.finish().is_err());
        let mut file = ProfileFile::create(&path).unwrap();
        assert!(file.write(b"not compressed at all").is_err());
        drop(file);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_directory_is_reported_with_what_to_do() {
        let error = ProfileFile::create(Path::new("/none/cart.cpuprofile")).err().unwrap();
        assert!(format!("{error:#}").contains("choose another --output"), "{error:#}");
    }

    #[test]
    fn the_size_is_bounded() {
        let mut bounded = Bounded { inner: Vec::new(), left: 3 };
        assert!(bounded.write_all(b"ab").is_ok() && bounded.write_all(b"cd").is_err());
    }
}
