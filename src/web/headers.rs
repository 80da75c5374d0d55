//! The security headers of every response.
//!
//! Owns the content security policies. Each allows what its page needs and nothing else: no other
//! host, no inline script, no form, and nobody may frame the node page.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// What a response is, as far as its headers go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The node page: it may frame AIUI and call RPC.
    NodePage,
    /// AIUI in its sandboxed frame: it may load its own modules and nothing else.
    Frame,
    /// AIUI in a page of its own: it may call RPC.
    ChatPage,
    /// A module or style sheet of the node page.
    NodeFile,
    /// A module or style sheet of AIUI: the sandboxed frame has an origin of its own, so anyone may load it.
    FrameFile,
    /// Everything else: answers of RPC, errors.
    Data,
}

const NODE_CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";
const CHAT_CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; \
    require-trusted-types-for 'script'; trusted-types answer";
const DATA_CSP: &str = "default-src 'none'; frame-ancestors 'none'";
const PERMISSIONS: &str = "camera=(), microphone=(), geolocation=(), usb=(), serial=(), \
    payment=(), display-capture=()";

/// Sets them. `host` is the request's, already checked: the frame's policy names it, for a sandboxed
/// frame is nobody's `'self'`.
pub fn set(headers: &mut HeaderMap, kind: Kind, host: &str) {
    let csp = match kind {
        Kind::NodePage => HeaderValue::from_static(NODE_CSP),
        Kind::ChatPage => HeaderValue::from_static(CHAT_CSP),
        Kind::Frame => frame_csp(host),
        Kind::NodeFile | Kind::FrameFile | Kind::Data => HeaderValue::from_static(DATA_CSP),
    };
    let mut fixed = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    fixed(header::REFERRER_POLICY, "no-referrer");
    fixed(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    fixed(HeaderName::from_static("permissions-policy"), PERMISSIONS);
    fixed(
        HeaderName::from_static("cross-origin-resource-policy"),
        match kind {
            Kind::Frame | Kind::FrameFile => "cross-origin",
            _ => "same-origin",
        },
    );
    // For browsers that know no `frame-ancestors`.
    fixed(header::X_FRAME_OPTIONS, if kind == Kind::Frame { "SAMEORIGIN" } else { "DENY" });
    fixed(
        header::CACHE_CONTROL,
        match kind {
            // Kept, but asked about each time by the ETag: a new version is there at once.
            Kind::NodeFile | Kind::FrameFile => "no-cache",
            _ => "no-store",
        },
    );
    if kind == Kind::FrameFile {
        fixed(header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, csp);
}

fn frame_csp(host: &str) -> HeaderValue {
    // `'self'` as well: a policy can't name an IPv6 address.
    let policy = format!(
        "default-src 'none'; script-src 'self' http://{host} https://{host}; \
         style-src 'self' http://{host} https://{host}; connect-src 'none'; frame-ancestors 'self'; \
         base-uri 'none'; form-action 'none'; sandbox allow-scripts; \
         require-trusted-types-for 'script'; trusted-types answer"
    );
    HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static(DATA_CSP))
}
