// Package pod runs Kubernetes' Pods without a cluster: it reads a Pod's manifest, unpacks its images, and starts each
// container under bubblewrap, with the mounts, the user and the rights that the manifest gives it. Containers share the
// Pod's network and volumes, as they do under a kubelet: init containers run one after the other, those that restart
// always are sidecars, a container that ends starts again, probes are asked, ConfigMaps change under a running Pod, and
// a Pod that is deleted has its grace period.
//
// It takes a Linux machine and root. It knows no seccomp profile, no limits of resources and no NetworkPolicy: these are
// read, and not enforced.
package pod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Manifest is a Pod, with the members that the tests' Pods use. A member that is not here is an error: what is not read
// cannot be tried.
type Manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   Metadata
	Spec       Spec
}

// Metadata has the name of an object.
type Metadata struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// Spec is the specification of a Pod.
type Spec struct {
	InitContainers                []Container      `yaml:"initContainers"`
	Containers                    []Container      `yaml:"containers"`
	Volumes                       []Volume         `yaml:"volumes"`
	SecurityContext               SecurityContext  `yaml:"securityContext"`
	RestartPolicy                 string           `yaml:"restartPolicy"`
	TerminationGracePeriodSeconds *int             `yaml:"terminationGracePeriodSeconds"`
	ShareProcessNamespace         bool             `yaml:"shareProcessNamespace"`
	AutomountServiceAccountToken  *bool            `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool            `yaml:"enableServiceLinks"`
	ServiceAccountName            string           `yaml:"serviceAccountName"`
	HostUsers                     *bool            `yaml:"hostUsers"`
	ImagePullSecrets              []map[string]any `yaml:"imagePullSecrets"`
}

// Container is a container of a Pod.
type Container struct {
	Name, Image     string
	ImagePullPolicy string `yaml:"imagePullPolicy"`
	Command, Args   []string
	WorkingDir      string `yaml:"workingDir"`
	Env             []Variable
	Ports           []map[string]any
	VolumeMounts    []Mount         `yaml:"volumeMounts"`
	SecurityContext SecurityContext `yaml:"securityContext"`
	Resources       map[string]any
	RestartPolicy   string `yaml:"restartPolicy"`
	StartupProbe    *Probe `yaml:"startupProbe"`
	ReadinessProbe  *Probe `yaml:"readinessProbe"`
	LivenessProbe   *Probe `yaml:"livenessProbe"`
	Lifecycle       struct {
		PreStop *Handler `yaml:"preStop"`
	}
	Stdin, TTY bool
}

// Sidecar reports whether an init container runs beside those that follow it.
func (c *Container) Sidecar() bool { return c.RestartPolicy == "Always" }

// Variable is an environment variable.
type Variable struct {
	Name, Value string
	ValueFrom   *struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

// Mount is a volume in a container.
type Mount struct {
	Name      string
	MountPath string `yaml:"mountPath"`
	SubPath   string `yaml:"subPath"`
	ReadOnly  bool   `yaml:"readOnly"`
}

// SecurityContext has the rights of a Pod or a container.
type SecurityContext struct {
	RunAsUser                *int           `yaml:"runAsUser"`
	RunAsGroup               *int           `yaml:"runAsGroup"`
	RunAsNonRoot             *bool          `yaml:"runAsNonRoot"`
	FSGroup                  *int           `yaml:"fsGroup"`
	FSGroupChangePolicy      string         `yaml:"fsGroupChangePolicy"`
	SupplementalGroups       []int          `yaml:"supplementalGroups"`
	SeccompProfile           map[string]any `yaml:"seccompProfile"`
	AllowPrivilegeEscalation *bool          `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRootFilesystem   bool           `yaml:"readOnlyRootFilesystem"`
	Privileged               bool           `yaml:"privileged"`
	Capabilities             struct {
		Add, Drop []string
	}
}

// Probe asks a container how it is.
type Probe struct {
	Handler             `yaml:",inline"`
	PeriodSeconds       int `yaml:"periodSeconds"`
	TimeoutSeconds      int `yaml:"timeoutSeconds"`
	FailureThreshold    int `yaml:"failureThreshold"`
	SuccessThreshold    int `yaml:"successThreshold"`
	InitialDelaySeconds int `yaml:"initialDelaySeconds"`
}

// Handler is the action of a probe, or at the end of a container: it runs a command, or requests a page.
type Handler struct {
	Exec    struct{ Command []string }
	HTTPGet *struct{ Path, Port, Scheme string } `yaml:"httpGet"`
}

// Volume is a volume of a Pod.
type Volume struct {
	Name      string
	EmptyDir  *map[string]any `yaml:"emptyDir"`
	ConfigMap *Files          `yaml:"configMap"`
	Secret    *Files          `yaml:"secret"`
	Claim     *struct {
		ClaimName string `yaml:"claimName"`
	} `yaml:"persistentVolumeClaim"`
	HostPath *struct{ Path, Type string } `yaml:"hostPath"`
	// Owner is the user that owns a new volume, with its mode. Pods have none: fsGroup counts. Compose's volumes have
	// one.
	Owner *Owner `yaml:"-"`
}

// Owner is the owner of a volume of Compose.
type Owner struct {
	UID, GID int
	Mode     fs.FileMode
}

// Files are a volume of the files of a ConfigMap or of a Secret.
type Files struct {
	Name        string
	SecretName  string `yaml:"secretName"`
	DefaultMode *int   `yaml:"defaultMode"`
	Optional    bool
	Items       []struct {
		Key, Path string
		Mode      *int
	}
}

// Kustomization is the part of a kustomization.yaml about a Pod's files.
type Kustomization struct {
	ConfigMapGenerator []Generator `yaml:"configMapGenerator"`
	SecretGenerator    []Generator `yaml:"secretGenerator"`
}

// Generator makes a ConfigMap or a Secret of files.
type Generator struct {
	Name     string
	Files    []string
	Literals []string
}

// set is a StatefulSet or a Deployment, with the members that the tests' manifests use.
type set struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   Metadata
	Spec       struct {
		Replicas             int
		ServiceName          string            `yaml:"serviceName"`
		Selector             map[string]any    `yaml:"selector"`
		Strategy             map[string]string `yaml:"strategy"`
		ClaimRetentionPolicy map[string]string `yaml:"persistentVolumeClaimRetentionPolicy"`
		VolumeClaimTemplates []struct {
			Metadata Metadata
			Spec     map[string]any
		} `yaml:"volumeClaimTemplates"`
		Template struct {
			Metadata Metadata
			Spec     Spec
		}
	}
}

// Load reads the Pod of the StatefulSet or Deployment in the manifest name, and passes over other documents. The claims
// of a StatefulSet become volumes of the Pod, as the controller of StatefulSets makes them.
func Load(name string) (*Manifest, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc yaml.Node
		if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s has no StatefulSet and no Deployment", name)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		var object struct{ Kind string }
		if err := doc.Decode(&object); err != nil || object.Kind != "StatefulSet" && object.Kind != "Deployment" {
			continue
		}
		one, err := yaml.Marshal(&doc)
		if err != nil {
			return nil, err
		}
		strict := yaml.NewDecoder(bytes.NewReader(one))
		strict.KnownFields(true)
		var of set
		if err := strict.Decode(&of); err != nil {
			return nil, fmt.Errorf("%s: %w; teach the harness what the member means", name, err)
		}
		if of.Spec.Replicas != 1 {
			return nil, fmt.Errorf("%s has %d replicas, want 1", name, of.Spec.Replicas)
		}
		m := &Manifest{APIVersion: "v1", Kind: "Pod", Metadata: of.Spec.Template.Metadata, Spec: of.Spec.Template.Spec}
		m.Metadata.Name = of.Metadata.Name + "-0"
		for _, c := range of.Spec.VolumeClaimTemplates {
			v := Volume{Name: c.Metadata.Name, Claim: &struct {
				ClaimName string `yaml:"claimName"`
			}{c.Metadata.Name + "-" + m.Metadata.Name}}
			m.Spec.Volumes = append(m.Spec.Volumes, v)
		}
		return m, nil
	}
}

// LoadFiles reads what the kustomization.yaml in a folder makes: the files of each ConfigMap and each Secret, by its
// name.
func LoadFiles(dir string) (map[string]map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	var k Kustomization
	if err := yaml.Unmarshal(text, &k); err != nil {
		return nil, fmt.Errorf("%s/kustomization.yaml: %w", dir, err)
	}
	made := map[string]map[string]string{}
	for _, g := range append(k.ConfigMapGenerator, k.SecretGenerator...) {
		files := map[string]string{}
		for _, f := range g.Files {
			key, from, ok := strings.Cut(f, "=")
			if !ok {
				key, from = path.Base(f), f
			}
			text, err := os.ReadFile(filepath.Join(dir, from))
			if err != nil {
				return nil, err
			}
			files[key] = string(text)
		}
		for _, l := range g.Literals {
			key, value, _ := strings.Cut(l, "=")
			files[key] = value
		}
		made[g.Name] = files
	}
	return made, nil
}
