//! The web server: the embedded pages, `/rpc`, `/events`, `/healthz` and `/metrics`.
//!
//! Owns the routes, the check of `Host` before all of them, and the security headers after all of them.
//! Decides nothing about a call: that is RPC's.

pub mod assets;
pub mod connection;
pub mod forwarded;
pub mod headers;
pub mod health;
pub mod hosts;
pub mod seats;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::rpc::{self, Services};
use assets::Asset;
use connection::Peer;
use headers::Kind;

/// Everything that is served.
pub fn router(services: Arc<Services>) -> Router {
    let (node, node_files) = split(assets::node());
    let (aiui, aiui_files) = split(assets::aiui());
    let mut router = Router::new()
        .route(
            "/",
            get(node_page).with_state(Page { services: Arc::clone(&services), index: node }),
        )
        .route("/aiui", get(async || Redirect::permanent("/aiui/")))
        .route("/aiui/", page(&aiui, Kind::Frame))
        .route("/chat", get(async || Redirect::permanent("/chat/")))
        .route("/chat/", page(&aiui, Kind::ChatPage))
        .route("/healthz", get(healthz).with_state(Arc::clone(&services)))
        .route("/events", get(rpc::events::stream::get).with_state(Arc::clone(&services)))
        .route("/metrics", get(rpc::metrics::get).with_state(Arc::clone(&services)))
        .route("/rpc", post(rpc::http::post).with_state(Arc::clone(&services)));
    for asset in node_files {
        if asset.name == "icon.svg" {
            // Asked for unbidden by browsers on pages that name no icon.
            router = router.route("/favicon.ico", file(&asset, Kind::NodeFile));
        }
        router = router.route(&format!("/{}", asset.name), file(&asset, Kind::NodeFile));
    }
    for asset in aiui_files {
        router = router.route(&format!("/aiui/{}", asset.name), file(&asset, Kind::FrameFile));
    }
    router
        .fallback(async || StatusCode::NOT_FOUND)
        .layer(middleware::from_fn_with_state(services, guard))
}

/// Serves until `cancel`; then stops the operator's turns and lets requests in flight end.
pub async fn serve(listener: TcpListener, services: Arc<Services>, cancel: CancellationToken) {
    let router = router(Arc::clone(&services));
    let stopping = async {
        cancel.cancelled().await;
        services.turns.stop_all();
    };
    let feeding = rpc::events::sources::run(Arc::clone(&services), cancel.clone());
    tokio::join!(
        connection::accept(listener, router, services.seats.clone(), cancel.clone()),
        stopping,
        feeding
    );
}

/// Around every route: nothing is looked at under a foreign name, and nothing leaves without its headers.
async fn guard(State(services): State<Arc<Services>>, request: Request, next: Next) -> Response {
    let Some(host) = services.hosts.of(request.uri(), request.headers()).map(str::to_owned) else {
        let mut response =
            (StatusCode::FORBIDDEN, "this is not a name of the node (key http.hosts)")
                .into_response();
        headers::set(response.headers_mut(), Kind::Data, "");
        return response;
    };
    let mut response = next.run(request).await;
    let kind = response.extensions().get::<Kind>().copied().unwrap_or(Kind::Data);
    headers::set(response.headers_mut(), kind, &host);
    response
}

#[derive(Clone)]
struct Page {
    services: Arc<Services>,
    index: Option<Arc<Asset>>,
}

/// The node page; with `?login=TOKEN`, a one-time link: it sets the cookie and leads to the page without
/// the token in its address.
async fn node_page(
    State(page): State<Page>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    peer: Option<Extension<Peer>>,
) -> Response {
    // The same link as is printed, in a form that survives programs which cut a `#` off.
    let setup = uri.query().and_then(|query| query.strip_prefix("setup="));
    if let Some(token) = setup.and_then(rpc::auth::Token::parse) {
        return Redirect::to(&format!("/#setup={}", token.text())).into_response();
    }
    let token = uri.query().and_then(|query| query.strip_prefix("login="));
    let Some(token) = token.filter(|_| method == Method::GET) else {
        return of_kind(body(page.index.as_deref(), &headers), Kind::NodePage);
    };
    let (services, peer) = (&page.services, peer.as_deref());
    let client = services.client(&headers, peer);
    let mut response = Redirect::to("/").into_response();
    if let Some(new) = services.auth.redeem_link(token, &client).await {
        rpc::http::set_cookie(&mut response, &new.token, services.forwarded.is_tls(&headers, peer));
    }
    response
}

async fn healthz(State(services): State<Arc<Services>>) -> Response {
    axum::Json(health::body(&services).await).into_response()
}

/// A folder's page, which has an address of its own, and its other files.
fn split(assets: Vec<Arc<Asset>>) -> (Option<Arc<Asset>>, Vec<Arc<Asset>>) {
    let (pages, files): (Vec<_>, Vec<_>) =
        assets.into_iter().partition(|asset| asset.name == "index.html");
    (pages.into_iter().next(), files)
}

fn page(index: &Option<Arc<Asset>>, kind: Kind) -> MethodRouter {
    let index = index.clone();
    get(async move |headers: HeaderMap| of_kind(body(index.as_deref(), &headers), kind))
}

fn file(asset: &Arc<Asset>, kind: Kind) -> MethodRouter {
    let asset = Arc::clone(asset);
    get(async move |headers: HeaderMap| {
        let known = headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|etag| etag.trim().trim_start_matches("W/").as_bytes())
            .any(|etag| etag == asset.etag.as_bytes() || etag == asset.gzip_etag.as_bytes());
        let mut response = if known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            body(Some(&asset), &headers)
        };
        let packed = asset.gzip.is_some() && takes_gzip(&headers);
        let etag = if packed { &asset.gzip_etag } else { &asset.etag };
        response.headers_mut().insert(header::ETAG, etag.clone());
        of_kind(response, kind)
    })
}

fn body(asset: Option<&Asset>, headers: &HeaderMap) -> Response {
    let Some(asset) = asset else { return StatusCode::NOT_FOUND.into_response() };
    let content_type = (header::CONTENT_TYPE, asset.content_type.clone());
    let vary = (header::VARY, HeaderValue::from_static("Accept-Encoding"));
    match &asset.gzip {
        Some(packed) if takes_gzip(headers) => {
            let encoding = (header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            ([content_type, vary, encoding], packed.clone()).into_response()
        }
        _ => ([content_type, vary], asset.bytes).into_response(),
    }
}

/// Named, and not with a weight of nothing. `*` counts as not: whoever writes it can read the plain form too.
fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = parts.any(|weight| {
                let weight = weight.to_ascii_lowercase().replace(' ', "");
                weight.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0f32))
            });
            named && !refused
        })
}

fn of_kind(mut response: Response, kind: Kind) -> Response {
    response.extensions_mut().insert(kind);
    response
}
