import { DomainError } from '../errors.ts'
import { headlineWithField, readAs } from '../../policy/issues.ts'
import type { JsonObject } from '../../policy/types.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import type { Changer, Prepared } from '../changes/gate.ts'
import type { Context, Unsealing } from '../context.ts'
import { governanceChanges } from '../../policy/settings.ts'
import {
  prepareGroup,
  prepareGroupChange,
  prepareMembership,
  type GroupChange,
  type MembershipRequest,
  type NewGroupRequest,
} from '../people/groups.ts'
import { prepareOverride, type OverrideRequest } from '../rules/role-overrides.ts'
import { preparePolicy, type PolicyRequest } from '../rules/tool-policies.ts'
import { prepareSettings } from '../rules/settings.ts'
import { prepareProvider, type ProviderRequest } from '../signin/provider.ts'
import { prepareScimToken, type ScimTokenRequest } from '../signin/scim.ts'
import { prepareApply } from '../declared/apply.ts'
import type { ApplyRequest } from '../declared/declared.ts'
import { ruleKinds, type AnyBody } from '../rules/rule-kinds.ts'
import { hasSameConditions, prepareRule, type RuleRequest } from '../rules/rules.ts'

export type Applying = Unsealing & Pick<Context, 'outgoing'>

interface Asked {
  readonly context: Applying
  readonly tx: ChainTx
  readonly changer: Changer
  readonly secret: string | null
}

type Operation = (asked: Asked, given: JsonObject) => Promise<Prepared<unknown>>

/** Every change that can wait for a second person, by the name in its request. Each validates again. */
export const operations: Readonly<Record<string, Operation>> = {
  async rule({ tx, changer }, given) {
    const request = given as unknown as RuleRequest
    const prepared = await prepareRule(tx, changer, request)
    if (request.body !== null) refuseInvalid(request, prepared.before as AnyBody | null)
    return prepared
  },
  tool_policy: ({ tx, changer }, given) => preparePolicy(tx, changer, given as unknown as PolicyRequest),
  role_override: ({ tx, changer }, given) =>
    prepareOverride(tx, changer, given as unknown as OverrideRequest),
  apply: ({ tx, changer }, given) => prepareApply(tx, changer, given as unknown as ApplyRequest),
  'group.create': ({ tx, changer }, given) => prepareGroup(tx, changer, given as unknown as NewGroupRequest),
  'group.update': ({ tx, changer }, given) =>
    prepareGroupChange(tx, changer, given as unknown as GroupChange & { id: string }),
  'group.member': ({ tx, changer }, given) =>
    prepareMembership(tx, changer, given as unknown as MembershipRequest),
  settings: ({ tx, changer }, given) => prepareSettings(tx, changer, governanceChanges.parse(given)),
  async sign_in({ context, tx, changer, secret }, given) {
    const seal = await context.sealer.sealing()
    const request = given as unknown as ProviderRequest
    return prepareProvider(context, tx, changer, { request, secret, seal })
  },
  scim_token: ({ tx, changer }, given) => prepareScimToken(tx, changer, given as unknown as ScimTokenRequest),
}

/** Name, description and status of a rule that is no longer valid can still be changed. */
function refuseInvalid({ kind, body }: RuleRequest, before: AnyBody | null): void {
  const read = readAs<AnyBody>(ruleKinds[kind].input, body)
  if (read.ok || (before !== null && hasSameConditions(before, body as AnyBody))) return
  const message = headlineWithField('the rule would not be valid now', read.issues)
  throw new DomainError('validation_error', message, read.issues)
}
