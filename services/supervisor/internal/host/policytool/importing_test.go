package policytool_test

import (
	"bytes"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/host/policytool"
)

func TestImport_ListsDroppedEntries(t *testing.T) {
	f := &fake{imported: &permissionv1.ImportResponse{Policy: []byte("version: 1\n"), Format: "claude", Dropped: []*permissionv1.Dropped{
		{Entry: "WebFetch(domain:example.com)", Why: "rules know no domains; write a rule on tool.fetch with a condition of your own over action.raw_input"},
		{Entry: "Bash(\x1b[2J)", Why: "it has a control character"},
	}}}
	answer, err := policytool.Import(t.Context(), serve(t, f), "claude", "settings.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if f.importing.GetFormat() != "claude" || f.importing.GetName() != "settings.json" || string(f.importing.GetContent()) != "{}" {
		t.Errorf("permd was asked %v", f.importing)
	}
	var out bytes.Buffer
	policytool.PrintDropped(&out, policytool.Style{Width: 60}, "settings.json", answer)
	answer.Dropped = answer.Dropped[:1]
	policytool.PrintDropped(&out, policytool.Style{}, "settings.json", answer)
	answer.Dropped = nil
	policytool.PrintDropped(&out, policytool.Style{}, "settings.json", answer)
	golden(t, "dropped", out.String())
	if _, err := policytool.Import(t.Context(), serve(t, &fake{}), "", "x", nil); err == nil || err.Error() != "import x: no format that is known" {
		t.Errorf("error is %v", err)
	}
}
