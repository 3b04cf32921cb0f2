package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handlertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) { handlertest.Run(t, conformance.KindFS, newHandler()) }
