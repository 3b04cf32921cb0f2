package invisible

import "testing"

func TestIs_InvisibleCharacters(t *testing.T) {
	for name, runes := range map[string]string{
		"controls":            "\x00\t\n\r\x1b\x7f\u0085\u009b",
		"directions":          "\u061c\u200e\u200f\u202a\u202e\u2066\u2069",
		"joiners":             "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f",
		"blank letters":       "\u115f\u1160\u3164\uffa0\u2800\u17b4\u17b5",
		"variation selectors": "\u180b\ufe00\ufe0f\U000e0100",
		"tags and the rest":   "\U000e0041\u2028\u2029\ue000\uffff",
	} {
		for _, r := range runes {
			if !Is(r) {
				t.Errorf("%s: %U is not on the list", name, r)
			}
		}
	}
	for _, r := range " aZ~é日\u0301ש…\u00a0\u3000😀" {
		if Is(r) {
			t.Errorf("%U is on the list", r)
		}
	}
	if In("README.md") || !In("README\u3164.md") {
		t.Error("In does not report what Is does")
	}
}
