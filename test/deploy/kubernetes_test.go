package deploy

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/resource"
	"github.com/yannh/kubeconform/pkg/validator"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// built returns the objects that "kubectl kustomize" makes of a folder of deploy, by kind and name.
func built(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-R", "../../deploy/.", dir).CombinedOutput(); err != nil {
		t.Fatalf("copy the manifests: %v %s", err, out)
	}
	// keys.sh, or the user, makes these; what is in them does not matter here.
	kustomizations, err := filepath.Glob(filepath.Join(dir, "*", "kustomization.yaml"))
	if err != nil || len(kustomizations) == 0 {
		t.Fatalf("the kustomizations are %q (%v)", kustomizations, err)
	}
	for _, file := range kustomizations {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var k struct {
			SecretGenerator []struct{ Files []string } `json:"secretGenerator"`
		}
		if err := yaml.Unmarshal(text, &k); err != nil {
			t.Fatal(err)
		}
		for _, g := range k.SecretGenerator {
			for _, name := range g.Files {
				name = filepath.Join(filepath.Dir(file), name)
				if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte("key"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, folder))
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]byte{}
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		objects[r.GetKind()+"/"+r.GetName()] = text
	}
	return objects
}

// sandboxTemplate is the part of agent-sandbox's v1beta1 that is used here.
type sandboxTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		PodTemplate struct {
			ObjectMeta struct {
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
			Spec corev1.PodSpec `json:"spec"`
		} `json:"podTemplate"`
		NetworkPolicy struct {
			Ingress []networkingv1.NetworkPolicyIngressRule `json:"ingress"`
			Egress  []networkingv1.NetworkPolicyEgressRule  `json:"egress"`
		} `json:"networkPolicy"`
	} `json:"spec"`
}

// decode parses an object as an API server with strict validation does: an unknown member is an error.
func decode(t *testing.T, name string, text []byte) any {
	t.Helper()
	var object any
	switch kind, _, _ := strings.Cut(name, "/"); kind {
	case "StatefulSet":
		object = &appsv1.StatefulSet{}
	case "Deployment":
		object = &appsv1.Deployment{}
	case "Service":
		object = &corev1.Service{}
	case "ConfigMap":
		object = &corev1.ConfigMap{}
	case "Secret":
		object = &corev1.Secret{}
	case "NetworkPolicy":
		object = &networkingv1.NetworkPolicy{}
	case "SandboxTemplate":
		object = &sandboxTemplate{}
	default:
		t.Fatalf("%s is of a kind that this test does not know", name)
	}
	if err := yaml.UnmarshalStrict(text, object); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return object
}

// schemas are Kubernetes' own schemas in the form that kubeconform requires, and those of the resources whose
// definitions are in the folder that ACPHOST_CRDS names.
func schemas(t *testing.T) string {
	t.Helper()
	// "make deploy-check" has downloaded them.
	fetched := exec.Command("go", "mod", "download", "-json", "sigs.k8s.io/kubectl-validate@v0.0.4")
	fetched.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-mod=mod", "GONOSUMDB=*")
	fetched.Dir = t.TempDir()
	list, err := fetched.Output()
	var module struct{ Dir, Error string }
	if err := errors.Join(err, json.Unmarshal(list, &module)); err != nil || module.Dir == "" {
		t.Fatalf("the schemas are not there, run \"make deploy-check\": %v %s", err, list)
	}
	from, to := filepath.Join(module.Dir, "pkg/openapiclient/builtins/1.30"), t.TempDir()
	write := func(kind string, schema any) {
		text, err := json.Marshal(schema)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, strings.ToLower(kind)+".json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for file, prefix := range map[string]string{
		"api/v1.json": "io.k8s.api.core.v1.", "apis/apps/v1.json": "io.k8s.api.apps.v1.", "apis/networking.k8s.io/v1.json": "io.k8s.api.networking.v1.",
	} {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"StatefulSet", "Deployment", "Service", "ConfigMap", "Secret", "NetworkPolicy"} {
			all := doc["components"].(map[string]any)["schemas"].(map[string]any)
			if _, ok := all[prefix+kind]; ok {
				write(kind, map[string]any{"$ref": "#/components/schemas/" + prefix + kind, "components": doc["components"]})
			}
		}
	}
	if crds := os.Getenv("ACPHOST_CRDS"); crds != "" {
		text, err := os.ReadFile(filepath.Join(crds, "extensions.agents.x-k8s.io_sandboxtemplates.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema map[string]any }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			if v.Name == "v1beta1" {
				closeObjects(v.Schema.OpenAPIV3Schema)
				write("SandboxTemplate", v.Schema.OpenAPIV3Schema)
			}
		}
	}
	return to
}

// closeObjects has a schema refuse members that it does not name, as an API server drops them.
func closeObjects(schema map[string]any) {
	members, _ := schema["properties"].(map[string]any)
	if _, open := schema["x-kubernetes-preserve-unknown-fields"]; len(members) > 0 && !open {
		schema["additionalProperties"] = false
	}
	for _, m := range members {
		if m, ok := m.(map[string]any); ok {
			closeObjects(m)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		closeObjects(items)
	}
}

func TestManifests_AreValid(t *testing.T) {
	location := schemas(t) + "/{{.ResourceKind}}.json"
	check, err := validator.New([]string{location}, validator.Opts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"kubernetes", "kubernetes-two", "gateway", "sandbox"} {
		for name, text := range built(t, folder) {
			decode(t, name, text)
			if strings.HasPrefix(name, "SandboxTemplate/") && os.Getenv("ACPHOST_CRDS") == "" {
				continue // decode has read it strictly as what is used of it; with the definitions it is held to these as well
			}
			if res := check.ValidateResource(resource.Resource{Path: name, Bytes: text}); res.Status != validator.Valid {
				t.Errorf("%s is not valid: %v %v", name, res.Err, res.ValidationErrors)
			}
		}
	}
}

func TestPod_SeparatesContainers(t *testing.T) {
	objects := built(t, "kubernetes")
	pod := decode(t, "StatefulSet/agent", objects["StatefulSet/agent"]).(*appsv1.StatefulSet).Spec.Template
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v
	}
	for _, claim := range decode(t, "StatefulSet/agent", objects["StatefulSet/agent"]).(*appsv1.StatefulSet).Spec.VolumeClaimTemplates {
		volumes[claim.Name] = corev1.Volume{Name: claim.Name}
	}
	users := map[int64][]string{}
	seen := map[string][]string{} // ConfigMaps and Secrets, and the containers that have them
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		s := c.SecurityContext
		if s == nil || s.RunAsUser == nil || *s.RunAsUser == 0 || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s may more than a restricted container: %+v", c.Name, s)
			continue
		}
		users[*s.RunAsUser] = append(users[*s.RunAsUser], c.Name)
		if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() {
			t.Errorf("%s has no bounds of memory", c.Name)
		}
		if len(c.EnvFrom) > 0 || slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.ValueFrom != nil }) {
			t.Errorf("%s gets values from elsewhere by its environment", c.Name)
		}
		mounts := map[string]bool{}
		for _, m := range c.VolumeMounts {
			v, ok := volumes[m.Name]
			if !ok {
				t.Errorf("%s mounts %s, which there is not", c.Name, m.Name)
			}
			mounts[m.MountPath] = true
			for _, name := range []string{configMap(v), secretOf(v)} {
				if name != "" {
					seen[name] = append(seen[name], c.Name)
					if !m.ReadOnly {
						t.Errorf("%s may write %s", c.Name, name)
					}
				}
			}
		}
		// Images from scratch have no shell: what a probe runs is the container's own program.
		program := "/usr/bin/" + path.Base(strings.Split(c.Image, ":")[0])
		if len(c.Command) > 0 {
			program = c.Command[0]
		}
		for _, p := range []*corev1.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
			if p != nil && p.Exec.Command[0] != program {
				t.Errorf("%s is asked by %s, and is %s", c.Name, p.Exec.Command[0], program)
			}
		}
		if dir := path.Dir(program); dir != "/usr/bin" && !mounts[dir] {
			t.Errorf("%s runs %s, which no volume has", c.Name, program)
		}
	}
	if !slices.Equal(users[2001], []string{"fsd", "termd"}) || len(users[1000]) != 1 || len(users[2002]) != 1 {
		t.Errorf("the users are %v", users)
	}
	for name, want := range map[string]string{
		"acphost-policy": "permd", "acphost-config": "agent", "acphost-server": "agent",
		"acphost-fs-sidecar": "fsd", "acphost-terminal-sidecar": "termd", "acphost-permission-sidecar": "permd",
		"acphost-fs-supervisor": "agent", "acphost-terminal-supervisor": "agent", "acphost-permission-supervisor": "agent",
	} {
		if !slices.Equal(seen[name], []string{want}) {
			t.Errorf("%s is in %v, want it in %s alone", name, seen[name], want)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("%v is not covered", seen)
	}
	if s := pod.Spec.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the Pod is not restricted: %+v", s)
	}
	template := decode(t, "SandboxTemplate/acphost", built(t, "sandbox")["SandboxTemplate/acphost"]).(*sandboxTemplate)
	// A template has no claims: it has volumes instead.
	spec := template.Spec.PodTemplate.Spec
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return slices.Contains([]string{"workspace", "state", "home"}, v.Name) })
	if len(spec.Volumes)+3 != len(volumes) || !reflect.DeepEqual(spec, pod.Spec) {
		t.Error("the template's Pod is another one")
	}
	if len(template.Spec.NetworkPolicy.Ingress) != 1 || len(template.Spec.NetworkPolicy.Egress) != 2 {
		t.Errorf("the template's network is %+v", template.Spec.NetworkPolicy)
	}
}

// TestServices_SelectPodOfAgent: a Service, a NetworkPolicy and a StatefulSet select the Pod of their agent, and no
// other Pod in the namespace.
func TestServices_SelectPodOfAgent(t *testing.T) {
	pods := map[string]labels.Set{}
	selectors := map[string]labels.Selector{}
	add := func(of string, selector *metav1.LabelSelector) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		selectors[of] = s
	}
	for _, folder := range []string{"kubernetes", "kubernetes-two", "gateway"} {
		for name, text := range built(t, folder) {
			object := decode(t, name, text)
			_, of, _ := strings.Cut(name, "/")
			switch object := object.(type) {
			case *appsv1.StatefulSet:
				pods[of] = object.Spec.Template.Labels
				add(name, object.Spec.Selector)
				if object.Spec.Replicas == nil || *object.Spec.Replicas != 1 || object.Spec.ServiceName != of {
					t.Errorf("%s has the Service %s and %v replicas, want its own and 1", name, object.Spec.ServiceName, object.Spec.Replicas)
				}
			case *appsv1.Deployment:
				pods[of] = object.Spec.Template.Labels
				add(name, object.Spec.Selector)
			case *corev1.Service:
				add(name, &metav1.LabelSelector{MatchLabels: object.Spec.Selector})
			case *networkingv1.NetworkPolicy:
				add(name, &object.Spec.PodSelector)
				if of != "acphost-gateway" {
					// The gateway is one of the callers that are let in.
					add("callers of "+of, object.Spec.Ingress[0].From[0].PodSelector)
				}
			}
		}
	}
	if len(pods) != 3 {
		t.Fatalf("the Pods are %v", pods)
	}
	for name, selector := range selectors {
		want := name[strings.Index(name, "/")+1:]
		if strings.HasPrefix(name, "callers of ") {
			want = "acphost-gateway"
		}
		for pod, set := range pods {
			if selector.Matches(set) != (pod == want) {
				t.Errorf("%s: selects the Pod %s is %v, want %v", name, pod, selector.Matches(set), pod == want)
			}
		}
	}
}

func configMap(v corev1.Volume) string {
	if v.ConfigMap == nil {
		return ""
	}
	return v.ConfigMap.Name
}

func secretOf(v corev1.Volume) string {
	if v.Secret == nil {
		return ""
	}
	return v.Secret.SecretName
}
