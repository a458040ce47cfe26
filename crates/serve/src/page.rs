//! The page at `/`: one answer, put together from files inside the binary. Nothing is fetched from elsewhere, only the script and the style that carry this
//! answer's own number run, and everything that a model says is set as text, never as markup.

use crate::api::{Answer, text};
use crate::app::App;
use crate::body::Call;
use hyper::header::{self, HeaderValue};
use std::sync::{Arc, LazyLock};

/// The page, but for the number that each answer has of its own.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let script = concat!(
        include_str!("page/page.js"),
        include_str!("page/steps.js"),
        include_str!("page/drawn.js"),
        include_str!("page/inside.js")
    );
    include_str!("page/index.html").replace("STYLE", include_str!("page/page.css")).replace("SCRIPT", script)
});

/// Answers `GET /`.
pub async fn answer(app: Arc<App>, _: Call) -> Answer {
    let nonce = app.id("n");
    let mut response = text("text/html; charset=utf-8", PAGE.replace("NONCE", &nonce));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::PAGE;

    /// What a model says is a stranger's text.
    #[test]
    fn fault_45_nothing_is_set_as_markup_and_nothing_is_fetched() {
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://", "http://"] {
            assert!(!PAGE.contains(way), "{way}");
        }
        assert!(PAGE.len() > 10_000 && !PAGE.contains("STYLE<") && !PAGE.contains("SCRIPT<"));
        assert_eq!(PAGE.matches("nonce=\"NONCE\"").count(), 2);
    }
}
