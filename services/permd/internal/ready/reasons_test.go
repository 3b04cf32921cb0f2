package ready

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/testkit"
)

// maxReasonLength is the length up to which a reason fits on a line beside its question.
const maxReasonLength = 90

// The golden file lists every reason that a user of the ready policies can get, for reviews: each must be understood by
// a person who does not know acphost.
func TestReasons_MatchTheList(t *testing.T) {
	rules := map[string][]string{} // the rules by their reason
	for _, p := range List() {
		for _, rule := range read(t, p).GetRules() {
			at := fmt.Sprintf("%s/%s: %s", p.GetName(), rule.GetId(), rule.GetEffect())
			rules[rule.GetReason()] = append(rules[rule.GetReason()], at)
		}
	}
	var b strings.Builder
	b.WriteString("Reasons of the ready policies' rules\n\n")
	for _, text := range slices.Sorted(maps.Keys(rules)) {
		fmt.Fprintf(&b, "%s\n    %s\n", text, strings.Join(rules[text], ", "))
	}
	b.WriteString("\nReasons of acphost itself; %s, %d and %v stand for values\n\n")
	for text := range reason.All() {
		b.WriteString(text + "\n")
		rules[text] = nil
	}
	testkit.Golden(t, "reasons.txt", b.String())
	for text := range rules {
		if n := utf8.RuneCountInString(text); n > maxReasonLength || strings.HasSuffix(text, ".") || text == "" || strings.ToLower(text[:1]) != text[:1] && !strings.HasPrefix(text, "Go ") {
			t.Errorf("%q has %d characters; want at most %d, without a capital at the beginning and a full stop", text, n, maxReasonLength)
		}
	}
}
