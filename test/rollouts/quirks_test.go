package rollouts

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// descriptions changes how groups are described, as the Quirk of a Spec says.
type descriptions struct {
	spec Spec
	once sync.Once
	mu   sync.Mutex
	rand *rand.Rand
}

var (
	instanceList    = regexp.MustCompile(`(?s)<Instances>.*?</Instances>`)
	oneInstance     = regexp.MustCompile(`(?s)<member>.*?</member>`)
	versionPattern  = regexp.MustCompile(`<Version>[^<]*</Version>`)
	templatePattern = regexp.MustCompile(`(?s)<LaunchTemplate>.*?</LaunchTemplate>`)
)

// change changes an answer.
func (d *descriptions) change(c call, response *http.Response) (*http.Response, error) {
	if d.spec.Quirk == "" || d.spec.Quirk == LaunchesFirst || c.action != "DescribeAutoScalingGroups" {
		return response, nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	body = instanceList.ReplaceAllFunc(body, func(list []byte) []byte { return []byte(d.changeList(string(list))) })
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, nil
}

func (d *descriptions) changeList(list string) string {
	switch d.spec.Quirk {
	case ForeignVersion:
		return versionPattern.ReplaceAllString(list, "<Version>77</Version>")
	case LatestAsText:
		return versionPattern.ReplaceAllString(list, "<Version>$$Latest</Version>")
	case NoTemplate:
		return templatePattern.ReplaceAllString(list, "")
	case UpperCase:
		return strings.NewReplacer(">Healthy<", ">HEALTHY<", ">Unhealthy<", ">UNHEALTHY<").Replace(list)
	case AnyOrder:
		return d.shuffle(list)
	case LaunchesFirst:
	}
	return list
}

func (d *descriptions) shuffle(list string) string {
	d.once.Do(func() { d.rand = rand.New(rand.NewPCG(d.spec.Seed, 3)) })
	d.mu.Lock()
	defer d.mu.Unlock()
	all := oneInstance.FindAllString(list, -1)
	d.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return "<Instances>" + strings.Join(all, "") + "</Instances>"
}
