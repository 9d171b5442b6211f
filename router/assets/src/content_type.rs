//! Determines the content type of a file from its name. This module is pure.

/// Returns the content type of a file, and whether its content is worth compressing.
pub fn of(path: &str) -> (&'static str, bool) {
    let known = if path.ends_with(".map") {
        // The file is a source map.
        "application/json"
    } else {
        mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream")
    };
    // These types of text are declared as UTF-8, regardless of their defaults.
    let named = match known {
        "text/html" => "text/html; charset=utf-8",
        "text/css" => "text/css; charset=utf-8",
        "text/javascript" | "application/javascript" => "text/javascript; charset=utf-8",
        "text/plain" => "text/plain; charset=utf-8",
        "text/markdown" => "text/markdown; charset=utf-8",
        "text/csv" => "text/csv; charset=utf-8",
        "text/xml" => "text/xml; charset=utf-8",
        other => other,
    };
    (named, is_compressible(known))
}

/// Returns whether content of a type, without parameters, is worth compressing: text, and formats
/// that are not compressed themselves.
pub fn is_compressible(content_type: &str) -> bool {
    const TYPES: [&str; 14] = [
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/ndjson",
        "application/vnd.ms-fontobject",
        "application/wasm",
        "application/x-javascript",
        "application/x-ndjson",
        "application/xml",
        "font/otf",
        "font/ttf",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/x-icon",
    ];
    let is_type = |name: &str| content_type.eq_ignore_ascii_case(name);
    let starts_with = |prefix: &str| {
        content_type.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let ends_with = |suffix: &str| {
        let start = content_type.len().checked_sub(suffix.len());
        let end = start.and_then(|start| content_type.get(start..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    // gRPC compresses its messages itself, and delimits them in the uncompressed content.
    let is_grpc = starts_with("application/grpc");
    let is_text = starts_with("text/") || ends_with("+json") || ends_with("+xml");
    !is_grpc && (is_text || TYPES.into_iter().any(is_type))
}

#[cfg(test)]
mod tests {
    use super::{is_compressible, of};

    #[test]
    fn the_type_follows_from_the_name() {
        for (path, expected) in [
            ("index.html", ("text/html; charset=utf-8", true)),
            ("a/b.mjs", ("text/javascript; charset=utf-8", true)),
            ("a.js.map", ("application/json", true)),
            ("logo.svg", ("image/svg+xml", true)),
            ("photo.jpg", ("image/jpeg", false)),
            ("font.woff2", ("font/woff2", false)),
            ("app.wasm", ("application/wasm", true)),
            ("site.webmanifest", ("application/manifest+json", true)),
            ("file", ("application/octet-stream", false)),
        ] {
            assert_eq!(of(path), expected, "{path}");
        }
    }

    #[test]
    fn text_and_formats_without_compression_are_compressible() {
        for (content_type, expected) in [
            ("text/html", true),
            ("Text/X-Anything", true),
            ("application/JSON", true),
            ("application/ld+json", true),
            ("application/rss+XML", true),
            ("application/grpc", false),
            ("application/grpc-web+json", false),
            ("application/octet-stream", false),
            ("video/mp4", false),
            ("text", false),
            ("é+json", true),
            ("", false),
        ] {
            assert_eq!(is_compressible(content_type), expected, "{content_type}");
        }
    }
}
