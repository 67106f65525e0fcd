import { z } from 'zod'
import { freeze, unfreeze } from '../../governance/freeze.ts'
import { textField } from '../../policy/text.ts'
import { ok, route } from '../route.ts'

const body = z.strictObject({ reason: textField(500, 1) })
const frozen = z.strictObject({ frozen: z.boolean(), reason: z.string().nullable() })

const change = (verb: 'freeze' | 'unfreeze') =>
  route({
    key: `POST /organizations/{id}/${verb}`,
    summary:
      verb === 'freeze'
        ? 'Deny every call from the next decision on, of runs and agents alike'
        : 'Let the rules decide again',
    tag: 'Governance',
    body,
    responses: { 200: frozen },
    async handle({ context, caller, body: { reason } }) {
      const act = verb === 'freeze' ? freeze : unfreeze
      return ok(await act(context, caller, reason, performance.now()))
    },
  })

export const freezeRoutes = [change('freeze'), change('unfreeze')]
