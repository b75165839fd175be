-- The health of a KafkaFeatures resource. Degraded only where a human has to act; nothing here needs a Lua library, since
-- Argo CD gives none. How to set it up: argo-cd.md.

local annotations = obj.metadata.annotations or {}
if (obj.spec and obj.spec.suspend) or annotations["kafkafeatures.dev/pause"] == "true" then
  return { status = "Suspended", message = "paused: nothing new is begun" }
end

local status = obj.status
if not status or not status.conditions or status.observedGeneration ~= obj.metadata.generation then
  return { status = "Progressing", message = "waiting for the operator to look at it" }
end

local conditions = {}
for _, one in ipairs(status.conditions) do
  conditions[one.type] = one
end

local function is(kind, value)
  return conditions[kind] ~= nil and conditions[kind].status == value
end

local function said(kind)
  return conditions[kind].reason .. ": " .. conditions[kind].message
end

if is("Stalled", "True") then
  return { status = "Degraded", message = said("Stalled") }
end
if is("ApprovalRequired", "True") then
  return { status = "Suspended", message = said("ApprovalRequired") }
end
if is("Reconciling", "True") then
  return { status = "Progressing", message = said("Reconciling") }
end
if is("Ready", "True") then
  local drift = is("DriftDetected", "True") and "; " .. said("DriftDetected") or ""
  return { status = "Healthy", message = said("Ready") .. drift }
end

-- A cluster that is away comes back by itself; a wrong password does not.
local human = { TlsFailed = true, AuthenticationFailed = true, CredentialsInvalid = true, AddressRefused = true }
if is("Ready", "Unknown") then
  if is("Reachable", "False") and human[conditions.Reachable.reason] then
    return { status = "Degraded", message = said("Reachable") }
  end
  return { status = "Progressing", message = said("Ready") }
end

-- It was resumed a moment ago; an annotation makes no new generation.
if is("Ready", "False") and conditions.Ready.reason == "Suspended" then
  return { status = "Progressing", message = "resumed: waiting for the operator to look at it" }
end
if is("Ready", "False") then
  return { status = "Degraded", message = said("Ready") }
end
return { status = "Progressing", message = "waiting for the operator to look at it" }
