package docs_test

import (
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestMain(m *testing.M) { e2e.Main(m) }
