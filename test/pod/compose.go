package pod

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// compose is a file of Docker Compose, with the members that deploy/compose.yaml uses. A member that is not here is an
// error.
type compose struct {
	Name     string
	Closed   any `yaml:"x-closed"`
	Services map[string]service
	Configs  map[string]struct{ Content string }
	Volumes  map[string]*struct {
		DriverOpts struct{ Type, Device, O string } `yaml:"driver_opts"`
	}
}

// service is a container of Compose.
type service struct {
	Image, User         string
	Entrypoint, Command []string
	Environment         map[string]string
	ReadOnly            bool     `yaml:"read_only"`
	CapDrop             []string `yaml:"cap_drop"`
	SecurityOpt         []string `yaml:"security_opt"`
	Restart             string
	Init                bool
	NetworkMode         string `yaml:"network_mode"`
	Ports               []string
	Volumes, Tmpfs      []string
	Configs             []struct{ Source, Target string }
	StopGracePeriod     string                                `yaml:"stop_grace_period"`
	DependsOn           map[string]struct{ Condition string } `yaml:"depends_on"`
	Healthcheck         *struct {
		Test        []string
		Interval    string
		Timeout     string
		Retries     int
		StartPeriod string `yaml:"start_period"`
		StartEvery  string `yaml:"start_interval"`
	}
}

// variable is a variable in a file of Compose, with its default or the message if it is not set.
var variable = regexp.MustCompile(`\$\{(\w+)(?::([-?])((?:[^{}]|\$\{[^{}]*\})*))?\}`)

// interpolate replaces variables as Compose does.
func interpolate(text string, env map[string]string) (string, error) {
	var missing error
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		if value := env[m[1]]; value != "" {
			return value
		}
		if m[2] != "-" {
			missing = fmt.Errorf("%s is not set: %s", m[1], m[3])
			return ""
		}
		value, err := interpolate(m[3], env)
		if err != nil {
			missing = err
		}
		return value
	})
	return text, missing
}

// LoadCompose reads a file of Docker Compose as a Pod: services that end before others start are its init containers,
// services that others wait for are its sidecars. Binds are folders of this machine; contents of configs are written
// below the folder work. Compose gives each service its own network: here they share one.
func LoadCompose(name, work string, env map[string]string) (*Manifest, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	whole, err := interpolate(string(text), env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	strict := yaml.NewDecoder(strings.NewReader(whole))
	strict.KnownFields(true)
	var of compose
	if err := strict.Decode(&of); err != nil {
		return nil, fmt.Errorf("%s: %w; teach the harness what the member means", name, err)
	}
	m := &Manifest{Kind: "Pod", Metadata: Metadata{Name: of.Name}}
	for volume, v := range of.Volumes {
		owner := &Owner{Mode: 0o755} // of root, as Docker makes volumes
		if v != nil {
			if err := owner.set(v.DriverOpts.O); err != nil {
				return nil, fmt.Errorf("%s: the volume %s: %w", name, volume, err)
			}
		}
		m.Spec.Volumes = append(m.Spec.Volumes, Volume{Name: volume, Owner: owner})
	}
	for service, of := range of.Configs {
		file := filepath.Join(work, service)
		if err := os.WriteFile(file, []byte(of.Content), 0o644); err != nil { // as Compose does
			return nil, err
		}
		m.Spec.Volumes = append(m.Spec.Volumes, hostVolume("config-"+service, file))
	}
	waited := map[string]bool{}
	for _, s := range of.Services {
		for dependency := range s.DependsOn {
			waited[dependency] = true
		}
	}
	names := slices.Sorted(maps.Keys(of.Services))
	// Services that others wait for until they have ended are first.
	slices.SortStableFunc(names, func(a, b string) int {
		return rank(of.Services[a], waited[a]) - rank(of.Services[b], waited[b])
	})
	for _, service := range names {
		c, err := of.Services[service].container(service, filepath.Dir(name), m)
		if err != nil {
			return nil, fmt.Errorf("%s: the service %s: %w", name, service, err)
		}
		if waited[service] {
			m.Spec.InitContainers = append(m.Spec.InitContainers, c)
		} else {
			c.RestartPolicy = ""
			m.Spec.Containers = append(m.Spec.Containers, c)
		}
	}
	return m, nil
}

func rank(s service, waited bool) int {
	switch {
	case s.Restart == "":
		return 0
	case waited:
		return 1
	}
	return 2
}

func hostVolume(name, path string) Volume {
	return Volume{Name: name, HostPath: &struct{ Path, Type string }{Path: path}}
}

// set reads the options of a tmpfs.
func (o *Owner) set(options string) error {
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		base := 10
		if key == "mode" {
			base = 8
		}
		n, err := strconv.ParseUint(value, base, 32)
		switch key {
		case "mode":
			o.Mode = os.FileMode(n & 0o777)
			if n&0o1000 != 0 {
				o.Mode |= os.ModeSticky
			}
		case "uid":
			o.UID = int(n)
		case "gid":
			o.GID = int(n)
		case "size", "":
			err = nil
		default:
			err = fmt.Errorf("the option %q is not known to the harness", option)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// container is a service as a container. It adds volumes to the Pod m; paths are relative to the folder dir.
func (s service) container(name, dir string, m *Manifest) (Container, error) {
	c := Container{Name: name, Image: s.Image, Command: s.Entrypoint, Args: s.Command}
	uid, gid, _ := strings.Cut(s.User, ":")
	user, err := strconv.Atoi(uid)
	if err != nil {
		return c, err
	}
	group, err := strconv.Atoi(gid)
	if err != nil {
		return c, err
	}
	closed := slices.Contains(s.SecurityOpt, "no-new-privileges:true")
	c.SecurityContext = SecurityContext{RunAsUser: &user, RunAsGroup: &group, AllowPrivilegeEscalation: ptr(!closed), ReadOnlyRootFilesystem: s.ReadOnly}
	c.SecurityContext.Capabilities.Drop = s.CapDrop
	for key, value := range s.Environment {
		c.Env = append(c.Env, Variable{Name: key, Value: value})
	}
	for i, mount := range s.Volumes {
		parts := strings.Split(mount, ":")
		if len(parts) < 2 {
			return c, fmt.Errorf("the volume %q has no place in the container", mount)
		}
		volume := parts[0]
		if strings.ContainsRune(volume, '/') {
			if !filepath.IsAbs(volume) {
				volume = filepath.Join(dir, volume)
			}
			from := volume
			volume = fmt.Sprintf("%s-%d", name, i)
			m.Spec.Volumes = append(m.Spec.Volumes, hostVolume(volume, from))
		}
		c.VolumeMounts = append(c.VolumeMounts, Mount{Name: volume, MountPath: parts[1], ReadOnly: len(parts) == 3 && parts[2] == "ro"})
	}
	for i, mount := range s.Tmpfs {
		path, options, _ := strings.Cut(mount, ":")
		volume := Volume{Name: fmt.Sprintf("%s-tmpfs-%d", name, i), Owner: &Owner{Mode: 0o777 | os.ModeSticky}}
		if err := volume.Owner.set(options); err != nil {
			return c, err
		}
		m.Spec.Volumes = append(m.Spec.Volumes, volume)
		c.VolumeMounts = append(c.VolumeMounts, Mount{Name: volume.Name, MountPath: path})
	}
	for _, config := range s.Configs {
		c.VolumeMounts = append(c.VolumeMounts, Mount{Name: "config-" + config.Source, MountPath: config.Target, ReadOnly: true})
	}
	if h := s.Healthcheck; h != nil {
		if len(h.Test) < 2 || h.Test[0] != "CMD" {
			return c, fmt.Errorf("the health check %q is not known to the harness", h.Test)
		}
		c.StartupProbe = &Probe{PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 30}
		c.StartupProbe.Exec.Command = h.Test[1:]
	}
	if s.Restart != "" {
		c.RestartPolicy = "Always"
	}
	return c, nil
}

func ptr[T any](v T) *T { return &v }
