package main

import (
	"context"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/examples/echo/echov1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/handler"
)

// echo implements EchoService.
type echo struct {
	echov1.UnimplementedEchoServiceServer
	settings atomic.Pointer[echov1.EchoSettings]
}

// Echo answers _test.acphost/echo.
func (e *echo) Echo(_ context.Context, req *echov1.EchoRequest) (*echov1.EchoResponse, error) {
	if req.GetText() == "fail" {
		return nil, status.Error(codes.InvalidArgument, "asked to fail")
	}
	return &echov1.EchoResponse{
		Text:   e.settings.Load().GetPrefix() + req.GetText(),
		Number: req.GetNumber(),
		List:   req.GetList(),
		Agent:  req.GetContext().GetAgent(),
	}, nil
}

// configure applies the settings, or only checks them.
func (e *echo) configure(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
	settings := &echov1.EchoSettings{}
	if err := handler.DecodeSettings(req.GetSettings(), settings); err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(settings.GetPrefix()); n > 100 {
		return nil, status.Errorf(codes.InvalidArgument, "settings: prefix: has %d characters, at most 100 are taken", n)
	}
	if !req.GetValidateOnly() {
		e.settings.Store(settings)
	}
	return nil, nil
}
