package secretname

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// Value reports whether a value is, or contains, a secret by its form: an address with a password, a setting of a
// connection ("Password=…"), a private key, or a token of a well-known form.
func Value(value string) bool {
	if len(value) < 6 {
		return false
	}
	return Replace(value, "") != value || assigns(value) || mysqlAddress.MatchString(value)
}

// Replace replaces each secret in a text that is recognized by its form: private keys, passwords in addresses, and
// tokens of well-known forms. In an address the user stays, unless it is the token.
func Replace(text, with string) string {
	with = strings.ReplaceAll(with, "$", "$$")
	if strings.Contains(text, "-----BEGIN") {
		text = pemKey.ReplaceAllString(text, with)
	}
	if strings.Contains(text, "://") {
		text = urlPassword.ReplaceAllString(text, "${1}"+with+"@")
		text = urlUser.ReplaceAllStringFunc(text, func(s string) string {
			m := urlUser.FindStringSubmatch(s)
			if !random(m[2]) {
				return s
			}
			return m[1] + strings.ReplaceAll(with, "$$", "$") + "@"
		})
		text = webhook.ReplaceAllString(text, "${1}"+with)
	}
	if !slices.ContainsFunc(beginnings, func(b string) bool { return strings.Contains(text, b) }) {
		return text
	}
	return shapes().ReplaceAllStringFunc(text, func(s string) string {
		if strings.HasPrefix(s, "sk-") && !strings.ContainsAny(s, "0123456789") { // a name with hyphens
			return s
		}
		return strings.ReplaceAll(with, "$$", "$")
	})
}

// random reports whether a word looks random.
func random(s string) bool {
	if len(s) < 20 || !strings.ContainsAny(s, "0123456789") {
		return false
	}
	return strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
}

// assigns reports whether a value is a list of settings, such as a connection string or the query of an address, that
// contains a secret.
func assigns(value string) bool {
	for _, part := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("?&;, \t\n", r) }) {
		name, v, ok := strings.Cut(part, "=")
		if !ok || strings.Trim(v, `'"`) == "" || strings.HasPrefix(v, "$") {
			continue
		}
		if Is(name) || strings.EqualFold(name, "pwd") && !strings.HasPrefix(v, "/") {
			return true
		}
	}
	return false
}

// beginnings has a text that every token form contains, for a cheap first test.
var beginnings = []string{
	"sk-", "k_live_", "k_test_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glptt-",
	"glcbt-", "glagent-", "xox", "xapp-", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29.", "GOCSPX-", "npm_", "pypi-", "rubygems_", "hf_",
	"gsk_", "xai-", "pplx-", "r8_", "SG.", "dop_v1_", "dckr_pat_", "hvs.", "hvb.", "hvr.", "shpat_", "shpca_", "shppa_", "shpss_",
	"sntrys_", "sntryu_", "glsa_", "dapi", "lin_api_", "figd_", "ATATT3", "NRAK-", "PMAK-", "sbp_", "AGE-SECRET-KEY-", ":AA", "eyJ",
	"secret-token:",
}

var (
	pemKey       = lazyregexp.New(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----(?s:.*?)(-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|$)`)
	urlPassword  = lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@'"]*:)[^/\s'"]+@`)
	urlUser      = lazyregexp.New(`([A-Za-z][A-Za-z0-9+.-]*://)([^/\s:@'"]+)@`)
	webhook      = lazyregexp.New(`(https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|discord(?:app)?\.com/api/webhooks)/)[A-Za-z0-9/_-]+`)
	mysqlAddress = lazyregexp.New(`^[^\s:@/]+:[^\s@]+@[a-z0-9]*\(`)
	shapes       = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(?:` + strings.Join([]string{
			`sk-[A-Za-z0-9_-]{12,}`,                   // OpenAI, Anthropic and others
			`[rs]k_(?:live|test)_[A-Za-z0-9]{8,}`,     // Stripe
			`whsec_[A-Za-z0-9+/=]{16,}`,               // Stripe
			`gh[pousr]_[A-Za-z0-9]{8,}`,               // GitHub
			`github_pat_[A-Za-z0-9_]{8,}`,             // GitHub
			`gl(?:pat|dt|rt|ptt|cbt|agent)-[\w-]{8,}`, // GitLab
			`xox[abeoprs]-[A-Za-z0-9-]{8,}`,           // Slack
			`xapp-[A-Za-z0-9-]{12,}`,                  // Slack
			`(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{12,}`,    // AWS
			`AIza[0-9A-Za-z_-]{20,}`,                  // Google
			`ya29\.[0-9A-Za-z_-]{16,}`,                // Google
			`GOCSPX-[0-9A-Za-z_-]{16,}`,               // Google
			`npm_[A-Za-z0-9]{20,}`,                    // npm
			`pypi-[A-Za-z0-9_-]{16,}`,                 // PyPI
			`rubygems_[0-9a-f]{40,}`,                  // RubyGems
			`hf_[A-Za-z0-9]{16,}`,                     // Hugging Face
			`gsk_[A-Za-z0-9]{20,}`,                    // Groq
			`xai-[A-Za-z0-9]{20,}`,                    // xAI
			`pplx-[A-Za-z0-9]{20,}`,                   // Perplexity
			`r8_[A-Za-z0-9]{20,}`,                     // Replicate
			`SG\.[\w-]{16,}\.[\w-]{16,}`,              // SendGrid
			`dop_v1_[0-9a-f]{32,}`,                    // DigitalOcean
			`dckr_pat_[\w-]{16,}`,                     // Docker
			`hv[sbr]\.[\w-]{16,}`,                     // Vault
			`shp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}`,     // Shopify
			`sntry[su]_[\w=+/-]{16,}`,                 // Sentry
			`glsa_[A-Za-z0-9_]{16,}`,                  // Grafana
			`dapi[0-9a-f]{32}`,                        // Databricks
			`lin_api_[A-Za-z0-9]{16,}`,                // Linear
			`figd_[\w-]{16,}`,                         // Figma
			`ATATT3[\w=-]{16,}`,                       // Atlassian
			`NRAK-[A-Z0-9]{16,}`,                      // New Relic
			`PMAK-[0-9a-f-]{16,}`,                     // Postman
			`sbp_[0-9a-f]{32,}`,                       // Supabase
			`AGE-SECRET-KEY-1[0-9A-Z]{16,}`,           // age
			`[0-9]{8,10}:AA[\w-]{32,}`,                // Telegram
			`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*`,         // web tokens
			`secret-token:[\w.~%+-]{6,}`,              // RFC 8959
		}, "|") + `)`)
	})
)
