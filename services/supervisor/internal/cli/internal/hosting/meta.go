package hosting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// maxMetaFile limits the bytes of a file for --meta, because the supervisor rejects more.
const maxMetaFile = 256 << 10

// readMeta returns the _meta of --meta, or "". The supervisor validates it.
func readMeta(cmd *cobra.Command, flag string) (string, error) {
	if flag == "" {
		return "", nil
	}
	meta := flag
	if name, named := strings.CutPrefix(flag, "@"); named {
		at, err := ReadFile(name, maxMetaFile)
		switch {
		case err != nil:
			return "", fmt.Errorf("--meta: %w", err)
		case at.Data == nil:
			return "", fmt.Errorf("--meta: %s has over %d KiB", name, maxMetaFile>>10)
		}
		meta = string(at.Data)
	}
	v := jsontext.Value(meta)
	err := v.Compact()
	if err == nil && (v.Kind() != '{' || !utf8.ValidString(meta)) {
		err = errors.New("it is another value")
	}
	if err != nil {
		return "", command.UsageErrorf(cmd, "--meta: expected a JSON object, such as '{\"name\": {}}': %v", err)
	}
	return meta, nil
}

// completeAtFile completes the name of a file after "@".
func completeAtFile(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	name, named := strings.CutPrefix(word, "@")
	if !named {
		if word == "" {
			return []cobra.Completion{"@"}, directive
		}
		return nil, directive
	}
	dir, base := filepath.Split(name)
	files, err := os.ReadDir(filepath.Clean(dir + "."))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var list []cobra.Completion
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), base) || base == "" && strings.HasPrefix(f.Name(), ".") {
			continue
		}
		word := "@" + dir + f.Name()
		if f.IsDir() {
			word += string(filepath.Separator)
		}
		list = append(list, word)
	}
	return list, directive
}
