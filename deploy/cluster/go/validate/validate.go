package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	admission "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	autoscalingvalidation "k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"k8s.io/kubernetes/pkg/apis/coordination"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	coordinationvalidation "k8s.io/kubernetes/pkg/apis/coordination/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
)

// validate returns the faults for which the API server would refuse a new object.
func validate(object runtime.Object) (field.ErrorList, error) {
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		return nil, err
	}
	switch object := internal.(type) {
	case *admissionregistration.ValidatingAdmissionPolicy:
		return admission.ValidateValidatingAdmissionPolicy(object), nil
	case *admissionregistration.ValidatingAdmissionPolicyBinding:
		return admission.ValidateValidatingAdmissionPolicyBinding(object), nil
	case *apps.Deployment:
		options := pod.GetValidationOptionsFromPodTemplate(&object.Spec.Template, nil)
		return appsvalidation.ValidateDeployment(object, options), nil
	case *autoscaling.HorizontalPodAutoscaler:
		return autoscalingvalidation.ValidateHorizontalPodAutoscaler(object, autoscalingvalidation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 1}), nil
	case *coordination.Lease:
		return coordinationvalidation.ValidateLease(object), nil
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(object), nil
	case *core.Pod:
		options := pod.GetValidationOptionsFromPodSpecAndMeta(&object.Spec, nil, &object.ObjectMeta, nil)
		return corevalidation.ValidatePodCreate(object, options), nil
	case *core.Service:
		allocate(object)
		return corevalidation.ValidateServiceCreate(object), nil
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(object), nil
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(object, networkingvalidation.NetworkPolicyValidationOptions{}), nil
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(object, policyvalidation.PodDisruptionBudgetValidationOptions{}), nil
	case *rbac.ClusterRole:
		return rbacvalidation.ValidateClusterRole(object, rbacvalidation.ClusterRoleValidationOptions{}), nil
	case *rbac.ClusterRoleBinding:
		return rbacvalidation.ValidateClusterRoleBinding(object), nil
	case *rbac.Role:
		return rbacvalidation.ValidateRole(object), nil
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(object), nil
	case *scheduling.PriorityClass:
		return schedulingvalidation.ValidatePriorityClass(object), nil
	default:
		return nil, fmt.Errorf("no validation of %T; add it to deploy/cluster/go/validate/validate.go", internal)
	}
}

// allocate sets the fields of a Service that the API server fills before the validation.
func allocate(service *core.Service) {
	spec := &service.Spec
	if spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.Type == core.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal {
		spec.HealthCheckNodePort = 32000
	}
}

// templateOf returns the Pod template of an object that has one.
func templateOf(object runtime.Object) (*metav1.ObjectMeta, *corev1.PodSpec) {
	if deployment, ok := object.(*appsv1.Deployment); ok {
		return &deployment.Spec.Template.ObjectMeta, &deployment.Spec.Template.Spec
	}
	return nil, nil
}
