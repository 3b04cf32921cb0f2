package e2e

import (
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Choose puts a session of the demo agent into what no session of its begins in.
func (s *Server) Choose(id string, options bool) {
	s.T.Helper()
	_, err := s.Sessions.SetModel(s.Ctx, &supervisorv1.SetModelRequest{SessionId: id, ModelId: "mini"})
	if err == nil && options {
		_, err = s.Sessions.SetConfigOption(s.Ctx, &supervisorv1.SetConfigOptionRequest{
			SessionId: id, ConfigId: "effort", To: &supervisorv1.SetConfigOptionRequest_Value{Value: "high"},
		})
	}
	if err == nil && options {
		_, err = s.Sessions.SetConfigOption(s.Ctx, &supervisorv1.SetConfigOptionRequest{
			SessionId: id, ConfigId: "thorough", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true},
		})
	}
	if err == nil {
		_, err = s.Sessions.SetMode(s.Ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"})
	}
	if err != nil {
		s.T.Fatal(Explain(err))
	}
}
