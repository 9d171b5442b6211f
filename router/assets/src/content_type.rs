//! Determines the content type of a file from its name. This module is pure.

/// Returns the content type of a file, and whether its content is worth compressing.
pub fn of(path: &str) -> (&'static str, bool) {
    let known = if path.ends_with(".map") {
        // The file is a source map.
        "application/json"
    } else {
        mime_guess::from_path(path).first_raw().unwrap_or("application/octet-stream")
    };
    // Text is declared as UTF-8, regardless of the default of its type.
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

fn is_compressible(content_type: &str) -> bool {
    content_type.starts_with("text/")
        || ["+json", "+xml"].iter().any(|suffix| content_type.ends_with(suffix))
        || matches!(
            content_type,
            "application/json"
                | "application/javascript"
                | "application/wasm"
                | "application/xml"
                | "application/vnd.ms-fontobject"
                | "font/ttf"
                | "font/otf"
                | "image/bmp"
                | "image/x-icon"
        )
}

#[cfg(test)]
mod tests {
    use super::of;

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
}
