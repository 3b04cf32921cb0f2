package client_test

import (
	"testing"

	"github.com/acphost/acphost/sdk/client"
)

func TestEmbedded_PrefersText(t *testing.T) {
	for data, text := range map[string]bool{"words\n": true, "": true, "a\x00b": false, "\xff\xfe": false} {
		r := client.Embedded("file:///a", "text/plain", []byte(data)).GetResource()
		if got := r.GetText() == data && r.GetBlob() == nil; got != text || !text && string(r.GetBlob()) != data {
			t.Errorf("%q is embedded as %v, want text: %v", data, r, text)
		}
	}
}
