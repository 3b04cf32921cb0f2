package config

import (
	"cmp"
	"maps"
	"slices"
)

// Certificate is a certificate file that the configuration names.
type Certificate struct {
	// Setting is the setting that names it: "admin.tls.cert", "handlers.fs.tls.ca".
	Setting string
	// File is its absolute path.
	File string
}

// Certificates returns the certificates for connections over the network: of the supervisor, of each handler that is
// reached with TLS, and of their authorities.
func (c *Config) Certificates() []Certificate {
	var all []Certificate
	add := func(setting, ca, cert string) {
		for name, file := range map[string]string{setting + ".tls.ca": ca, setting + ".tls.cert": cert} {
			if file != "" {
				all = append(all, Certificate{Setting: name, File: file})
			}
		}
	}
	e := c.Effective()
	add("admin", e.GetAdmin().GetTls().GetCa(), e.GetAdmin().GetTls().GetCert())
	for _, name := range slices.Sorted(maps.Keys(e.GetHandlers())) {
		t := e.GetHandlers()[name].GetTls()
		add("handlers."+name, t.GetCa(), t.GetCert())
	}
	slices.SortFunc(all, func(a, b Certificate) int { return cmp.Compare(a.Setting, b.Setting) })
	return all
}
