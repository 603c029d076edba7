package awsim

// AMI types of managed node groups that are simulated.
const (
	AL2023        = "AL2023_x86_64_STANDARD"
	AL2023ARM     = "AL2023_ARM_64_STANDARD"
	AL2023Nvidia  = "AL2023_x86_64_NVIDIA"
	AL2           = "AL2_x86_64"
	Bottlerocket  = "BOTTLEROCKET_x86_64"
	WindowsServer = "WINDOWS_CORE_2022_x86_64"
	CustomAMI     = "CUSTOM"
)

// Release is a version of an Amazon EKS optimized AMI.
type Release struct {
	KubernetesVersion string // Such as 1.31.
	AMIType           string // AL2023 when empty.
	Version           string // Such as 1.31.2-20241115.
	Image             string
}

// releaseParameters returns the names of the parameters of Systems Manager with the version and with the image of the
// recommended release; ok is false for an AMI type that is not simulated. Source: "Retrieve recommended ... AMI IDs"
// and "Retrieve ... AMI version information" in the Amazon EKS user guide.
func releaseParameters(kubernetes, amiType string) (version, image string, ok bool) {
	const eks, recommended = "/aws/service/eks/optimized-ami/", "/recommended/"
	base := map[string]string{
		AL2023:        eks + kubernetes + "/amazon-linux-2023/x86_64/standard" + recommended,
		AL2023ARM:     eks + kubernetes + "/amazon-linux-2023/arm64/standard" + recommended,
		AL2023Nvidia:  eks + kubernetes + "/amazon-linux-2023/x86_64/nvidia" + recommended,
		AL2:           eks + kubernetes + "/amazon-linux-2" + recommended,
		Bottlerocket:  "/aws/service/bottlerocket/aws-k8s-" + kubernetes + "/x86_64/latest/",
		WindowsServer: "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-" + kubernetes + "/",
	}[amiType]
	version = base + "release_version"
	if amiType == Bottlerocket {
		version = base + "image_version"
	}
	return version, base + "image_id", base != ""
}

// PublishRelease publishes a release, which becomes the recommended one of its Kubernetes version and AMI type: the
// public parameters of Systems Manager name it. It panics for an AMI type that is not simulated.
func (s EKS) PublishRelease(r Release) {
	if r.AMIType == "" {
		r.AMIType = AL2023
	}
	version, image, ok := releaseParameters(r.KubernetesVersion, r.AMIType)
	if !ok {
		panic("awsim: the AMI type " + r.AMIType + " is not simulated")
	}
	a := s.asg
	a.update(func() {
		a.releases = append(a.releases, r)
		a.parameters[version], a.parameters[image] = r.Version, r.Image
	})
}

// release returns the release of a Kubernetes version and AMI type, the latest without a version of its own. It needs
// mu.
func (a eksEngine) release(kubernetes, amiType, version string) (found Release, ok bool) {
	for _, r := range a.releases {
		if r.KubernetesVersion == kubernetes && r.AMIType == amiType && (version == "" || r.Version == version) {
			found, ok = r, true
		}
	}
	return found, ok
}
