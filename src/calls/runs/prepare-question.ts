import type { JsonObject } from '../../policy/types.ts'
import type { Question } from '../../steps/ask.ts'
import type { Unsealing } from '../../governance/context.ts'
import { sealParams } from '../../governance/runs/values/sealed-params.ts'
import type { DefinedCall } from './call.ts'
import type { Asked } from './question.ts'

/** Whom the resolved `to` names, and the sealed values of `show`. */
export async function prepareQuestion(
  context: Unsealing,
  defined: DefinedCall,
  values: JsonObject,
): Promise<Asked> {
  const question = values as unknown as Question
  const { to, show = {} } = question
  const person = typeof to === 'object' && 'group' in to ? null : await memberOf(context, defined, to)
  const problem = typeof person === 'string' ? `\`ask.to\`: ${person}` : null
  return {
    question,
    person: typeof person === 'string' ? null : person,
    problem,
    sealed: await sealParams(context.sealer, defined.key, { params: show, paramLabels: [] }),
    seal: await context.sealer.sealing(),
    expiresAfterSeconds: context.config.runApprovalSeconds,
  }
}

/** Words for the author if this person cannot be asked. They have no value. */
async function memberOf(
  { db }: Pick<Unsealing, 'db'>,
  { run }: DefinedCall,
  to: 'requester' | { readonly person: unknown },
): Promise<Asked['person'] | string> {
  const asked =
    to === 'requester' ? null : typeof to.person === 'string' ? to.person.trim().toLowerCase() : ''
  if (asked === '') return 'the person must be the mail address of a member'
  const who = asked === null ? 'the person who started the run' : 'this person'
  const row = await db
    .selectFrom('memberships as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .leftJoin('service_accounts as s', 's.id', 'm.user_id')
    .select(['u.id', 'u.email', 's.id as service'])
    .where('m.organization_id', '=', run.organizationId)
    .$if(asked === null, (all) => all.where('u.id', '=', run.requestedBy))
    .$if(asked !== null, (all) => all.where('u.email', '=', asked ?? ''))
    .executeTakeFirst()
  if (row === undefined) return `${who} is no member of the organization: name a member or a group`
  if (row.service !== null)
    return `${who} is a service account, and only people answer: name a member or a group`
  return { id: row.id, email: row.email }
}
