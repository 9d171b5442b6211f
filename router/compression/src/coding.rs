//! The content codings that the router produces (RFC 9110, section 8.4.1).

use tenon_lifecycle::label_values;

label_values! {
    /// A content coding.
    #[derive(Hash)]
    pub enum Coding {
        Brotli = "br",
        Zstd = "zstd",
        Gzip = "gzip",
    }
}
