import { z } from 'zod'
import { freeze, unfreeze } from '../../governance/rules/freeze.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { ok, route } from '../route.ts'
import { freezeBody } from '../schemas/governance.ts'

const frozen = z.strictObject({ frozen: z.boolean(), reason: z.string().nullable() })

const change = (verb: 'freeze' | 'unfreeze') =>
  route({
    key: `POST /organizations/{id}/${verb}`,
    summary:
      verb === 'freeze'
        ? 'Deny every call of runs and agents from the next decision on'
        : 'Let the rules decide again',
    tag: 'Governance',
    body: freezeBody,
    responses: { 200: frozen },
    async handle({ context, caller, body: { reason }, once }) {
      const act = verb === 'freeze' ? freeze : unfreeze
      const askedAt = performance.now()
      return ok(await actOnce(once, () => act(context, caller, reason, askedAt, once)))
    },
  })

export const freezeRoutes = [change('freeze'), change('unfreeze')]
