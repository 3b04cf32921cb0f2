package main

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
)

// count is a number of lines.
type count struct {
	code     int // lines with code
	comments int // lines with only comments
}

func (c count) plus(other count) count {
	return count{c.code + other.code, c.comments + other.comments}
}

// share returns the percentage of comments in all lines that are not blank.
func (c count) share() string {
	if c == (count{}) {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*float64(c.comments)/float64(c.code+c.comments))
}

// counted reports by its name, relative to the top of the repository, whether a file is Go code and not a test.
func counted(name string) bool {
	if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
		return false
	}
	for folder := range strings.SplitSeq(path.Dir(name), "/") {
		if folder == "testdata" || folder == "node_modules" {
			return false
		}
	}
	return true
}

// generated matches the comment that marks generated code (go help generate); it is above the package clause.
var (
	generated     = lazyregexp.New(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	packageClause = lazyregexp.New(`(?m)^package `)
)

// countSource counts one file. It returns 0 for generated code, and for code that imports package testing, which only
// tests use.
func countSource(source []byte) count {
	if clause := packageClause.FindIndex(source); clause != nil && generated.Match(source[:clause[0]]) {
		return count{}
	}
	files := token.NewFileSet()
	if parsed, _ := parser.ParseFile(files, "", source, parser.ImportsOnly); parsed != nil {
		for _, i := range parsed.Imports {
			if i.Path.Value == `"testing"` {
				return count{}
			}
		}
	}
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	code, comments := map[int]bool{}, map[int]bool{}
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.SEMICOLON && text == "\n" { // inserted by the scanner
			continue
		}
		marked := code
		if kind == token.COMMENT {
			marked = comments
		}
		first := file.Line(pos)
		for line := first; line <= first+strings.Count(text, "\n"); line++ {
			marked[line] = true
		}
	}
	for line := range code {
		delete(comments, line)
	}
	return count{code: len(code), comments: len(comments)}
}
