package server

import "net/http"

// The headers that pages of other origins may send and read (CORS). Cookies are not permitted: such a page
// authenticates with a token.
const (
	corsRequestHeaders = "Authorization, Content-Type, Last-Event-ID, " + HeaderConnection + ", " + HeaderSession +
		", Connect-Protocol-Version, Connect-Timeout-Ms, X-Grpc-Web, X-User-Agent, Grpc-Timeout"
	corsExposedHeaders = HeaderConnection + ", Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin"
)

// cors permits requests from pages of the Gate's origins (CORS). Browsers first send a preflight request (OPTIONS)
// without credentials; it is answered here, for these origins only.
func (h *handler) cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Add("Vary", "Origin")
		page := h.Gate.AllowedOrigin(r)
		if page == "" {
			next.ServeHTTP(w, r)
			return
		}
		header.Set("Access-Control-Allow-Origin", page)
		header.Set("Access-Control-Expose-Headers", corsExposedHeaders)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			header.Set("Access-Control-Allow-Headers", corsRequestHeaders)
			header.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}
