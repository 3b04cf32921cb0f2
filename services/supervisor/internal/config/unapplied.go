package config

// Unapplied returns a sentence for each setting of agents that is set and does not apply to all of run, prompt, chat
// and serve. All other settings of agents apply to each of them.
func (c *Config) Unapplied() []string {
	var notes []string
	add := func(set bool, key, commands, why string) {
		if set {
			notes = append(notes, key+" does not apply to "+commands+": "+why)
		}
	}
	const own = "acphost run, acphost prompt, acphost chat"
	const whose = "acphost serve starts these agents"
	add(c.Proto.GetAgent() != nil && c.Proto.GetAgent().MaxRestarts != nil, "agent.max_restarts", "acphost run, acphost prompt", "they start an agent once")
	add(len(c.Proto.GetServe().GetAgents()) > 0, "serve.agents", own, whose)
	add(len(c.Proto.GetServe().GetGatewayAgents()) > 0, "serve.gateway_agents", own, whose)
	return notes
}
