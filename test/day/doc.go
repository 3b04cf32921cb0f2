// Package day measures how acphost changes the work of an agent. day.yaml has the steps of a developer's day, git.yaml
// commands of git. Each step runs from the same start state, at the same path: without acphost, and through acphost
// under each configuration, both in a terminal (terminal/create) and as a process of the agent's own. The user allows
// each question once; if that was about an action that had been rejected, and the step failed, the agent tries again, at
// most three times.
//
// The report has, for each step, the questions, the exit status, the number of files that differ from those of the run
// without acphost, and the rules that denied something; and totals. Questions are expected where a step leaves the
// workspace on purpose (crosses).
//
// It is a measurement, and fails only if a step fails without acphost or cannot be measured. "make day" and "make
// day-git" print the report.
package day
