import { sql } from 'kysely'
import { standInsColumn } from '../../db/queries/absences.ts'
import { slackProblem } from '../../db/queries/notifications/problems.ts'
import { z } from 'zod'
import { hasFactor, openings, type OpenedWith } from '../../governance/access/second-factor.ts'
import { scopes, scopesOfRole, type Scope } from '../../governance/access/scopes.ts'
import { ok, done, tagged, created, splitKey, type Route } from '../route.ts'
import { id, role, scopeMap, time, named } from '../schemas/common.ts'
import { story } from '../schemas/example.ts'
import { absence, mailPreferencesBody, organization, organizationBody, scopesAsMap } from './members.ts'
import { instant, organizationQuery } from '../query.ts'
import { openClaimsOf, type OpenClaim } from '../../governance/notifications/claims.ts'
import { endAbsence, mostAbsentDays, readAbsence, setAbsence } from '../../governance/people/absences.ts'
import { changeMailPreferences, readMailPreferences } from '../../governance/people/mail-preferences.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { createOrganization } from '../../governance/people/organizations.ts'

const { route } = tagged('Identity')

const myOrganization = organization
  .extend({
    frozen: z.string().nullable().describe('why every call is denied there now; null if it is not frozen'),
    groups: z.array(z.string()).describe('the names of your groups there'),
    deputy_for: z
      .array(
        z.strictObject({ user_id: id, email: z.string(), role, groups: z.array(z.string()), until: time }),
      )
      .describe('who is away now, and in whose place you decide'),
    slack_account: z.string().nullable().describe('the Slack account that is linked to you there'),
    slack_problem: z
      .string()
      .nullable()
      .describe('the code of the error, if the newest message to the account has failed'),
    slack_claim: z
      .strictObject({
        external_id: z.string(),
        expires_at: time,
        needs_code: z.boolean().describe('false: a test message of an admin links it, when it arrives'),
        problem: z.string().nullable().describe('the code of the error, if the message could not be sent'),
      })
      .nullable()
      .describe('the Slack account that a code or a test message was sent to, which links it'),
  })
  .meta({ id: 'MyOrganization' })

const myAbsence = named('MyAbsence', { organization_id: id, absence: absence.nullable() })

export const absenceBody = z
  .strictObject({
    from: instant,
    until: instant,
    deputy: z.string().min(1).max(320).describe('the id or mail address of a member of the organization'),
  })
  .refine(({ from, until }) => from < until, { path: ['until'], message: 'must be after `from`' })
  .refine(({ from, until }) => until.getTime() - from.getTime() <= mostAbsentDays * 86_400_000, {
    path: ['until'],
    message: `must be at most ${mostAbsentDays} days after \`from\``,
  })
  .meta({ id: 'AbsenceRequest' })

const absenceExample = {
  organization_id: story.organization,
  absence: {
    from: story.held,
    until: story.expires,
    deputy: { user_id: story.requester, email: 'approver@countersign.test' },
  },
}

const me = named('Me', {
  user: z.strictObject({
    id,
    email: z.string(),
    name: z.string(),
    email_verified: z.boolean(),
    second_factor: z.boolean(),
    time_zone: z.string().nullable().describe('pages and mails write times in it; null: UTC'),
  }),
  organizations: z.array(myOrganization),
  organization_id: id,
  key_id: id.nullable(),
  /** null if the request has an API key. */
  session_opened_with: z.enum(openings).nullable(),
  /** A second factor was used for the key or session, and the person still has one. */
  has_second_factor: z.boolean(),
  scopes: scopeMap,
})

const claimView = (claim: OpenClaim | undefined) =>
  claim === undefined
    ? null
    : {
        external_id: claim.account,
        expires_at: claim.expiresAt.toISOString(),
        needs_code: claim.needsCode,
        problem: claim.problem,
      }

const mailPreferences = z
  .strictObject({ organization_id: id, ...mailPreferencesBody.shape, time_zone: z.string().nullable() })
  .meta({ id: 'MailPreferences' })

const accessTable = named('Scopes', {
  scopes: z.array(z.strictObject({ name: z.string(), minimum_role: role })),
  routes: z.array(
    z.strictObject({
      method: z.string(),
      path: z.string(),
      public: z.boolean(),
      scope: z.string().nullable(),
      further_scopes: z.array(z.string()).describe('scopes that a key needs besides `scope`'),
      minimum_role: role.nullable(),
    }),
  ),
})

const accessTo = ({ key, needs }: Route): z.infer<typeof accessTable>['routes'][number] => ({
  ...splitKey(key),
  public: needs === null,
  scope: needs?.scope ?? null,
  further_scopes: [...(needs?.further ?? [])],
  minimum_role: needs?.role ?? null,
})

export const meRoutes = (all: () => readonly Route[]) => [
  // Only about the caller. Every key except an agent's may call it.
  route({
    key: 'GET /me',
    needs: { scope: null, role: 'viewer', subject: 'nothing' },
    summary: 'The user of the key or session, their organizations, and its scopes',
    example: {
      answers: {
        200: {
          user: {
            id: story.approver,
            email: 'approver@countersign.test',
            name: 'approver',
            email_verified: true,
            second_factor: false,
            time_zone: 'Europe/Berlin',
          },
          organizations: [
            {
              id: story.organization,
              name: 'Countersign',
              personal: false,
              plan: 'enterprise',
              role: 'admin',
              frozen: null,
              groups: [],
              deputy_for: [],
              slack_account: null,
              slack_problem: null,
              slack_claim: null,
            },
          ],
          organization_id: story.organization,
          key_id: 'key_01M82XC51XKW55M3MWSR3FWKVN',
          session_opened_with: null,
          has_second_factor: false,
          scopes: { 'approvals:decide': true, 'approvals:read': true },
        },
      },
    },
    responses: { 200: me },
    async handle({ context, identity }) {
      const memberships = await context.db
        .selectFrom('memberships as m')
        .innerJoin('organizations as o', 'o.id', 'm.organization_id')
        .innerJoin('chain_head as h', 'h.organization_id', 'o.id')
        .select(['o.id', 'o.name', 'o.personal', 'o.plan', 'm.role', 'h.frozen', 'm.slack_account'])
        .select(
          sql<string[]>`array(select g.name from group_members i join groups g on g.id = i.group_id
            where i.organization_id = m.organization_id and i.user_id = m.user_id order by g.name)`.as(
            'groups',
          ),
        )
        .select(standInsColumn.as('deputy_for'))
        .select(slackProblem.as('slack_problem'))
        .where('m.user_id', '=', identity.user.id)
        .$if(identity.boundTo !== null, (bound) => bound.where('o.id', '=', identity.boundTo))
        .orderBy('o.id')
        .execute()
      const claims = await openClaimsOf(context.db, identity.user.id)
      const organizations = memberships.map((each) => ({
        ...each,
        slack_claim: claimView(claims.get(each.id)),
      }))
      const account = await context.db
        .selectFrom('users')
        .select(['email_verified', 'two_factor_enabled as second_factor', 'time_zone'])
        .where('id', '=', identity.user.id)
        .executeTakeFirstOrThrow()
      const { rows } = await sql<{ opened_with: OpenedWith | null; has_factor: boolean }>`
      select (select opened_with from auth_sessions where id = ${identity.sessionId}) as opened_with,
             ${hasFactor(identity)} as has_factor
      from users u where u.id = ${identity.user.id}`.execute(context.db)
      const [how] = rows
      const here = organizations.find((each) => each.id === identity.organizationId)
      return ok({
        user: { ...identity.user, ...account },
        organizations,
        organization_id: identity.organizationId,
        key_id: identity.keyId,
        session_opened_with: how?.opened_with ?? null,
        has_second_factor: how?.has_factor === true,
        scopes: scopesAsMap(identity.keyId === null ? scopesOfRole(here?.role ?? 'viewer') : identity.scopes),
      })
    },
  }),
  route({
    key: 'GET /me/notifications',
    needs: { scope: null, role: 'viewer', subject: 'own' },
    summary: 'Whether and when you get mails about what waits for you in the organization',
    query: organizationQuery,
    example: {
      answers: {
        200: {
          organization_id: story.organization,
          mail: true,
          delay_seconds: 1800,
          time_zone: 'Europe/Berlin',
        },
      },
    },
    responses: { 200: mailPreferences },
    handle: async ({ context, caller }) => ok(await readMailPreferences(context.db, caller)),
  }),
  route({
    key: 'PUT /me/notifications',
    needs: { scope: null, role: 'viewer', subject: 'own' },
    audit: ['member.mails_changed'],
    summary: 'Choose whether and when you get mails about what waits for you in the organization',
    query: organizationQuery,
    body: mailPreferencesBody,
    example: {
      body: { mail: true, delay_seconds: 1800, time_zone: 'Europe/Berlin' },
      answers: {
        200: {
          organization_id: story.organization,
          mail: true,
          delay_seconds: 1800,
          time_zone: 'Europe/Berlin',
        },
      },
    },
    responses: { 200: mailPreferences },
    handle: async ({ context, caller, body }) => ok(await changeMailPreferences(context, caller, body)),
  }),
  route({
    key: 'GET /me/absence',
    needs: { scope: null, role: 'viewer', subject: 'own' },
    summary: 'When you are away from the organization, and who decides in your place',
    query: organizationQuery,
    example: { answers: { 200: absenceExample } },
    responses: { 200: myAbsence },
    handle: async ({ context, caller }) => ok(await readAbsence(context.db, caller)),
  }),
  route({
    key: 'PUT /me/absence',
    needs: { scope: null, role: 'viewer', subject: 'own' },
    audit: ['absence.set'],
    summary: 'Say when you are away, and who decides in your place',
    description:
      'The deputy votes as themselves on what you could decide, and sees what its approvals show. A change that does not cover their votes any more makes them count no more.',
    query: organizationQuery,
    body: absenceBody,
    example: {
      body: { from: story.held, until: story.expires, deputy: 'approver@countersign.test' },
      answers: { 200: absenceExample },
    },
    responses: { 200: myAbsence },
    handle: async ({ context, caller, body }) => ok(await setAbsence(context, caller, body)),
  }),
  route({
    key: 'DELETE /me/absence',
    needs: { scope: null, role: 'viewer', subject: 'own' },
    audit: ['absence.ended'],
    summary: 'Be away no more; votes that your deputy gave count no more',
    query: organizationQuery,
    responses: { 204: null },
    handle: ({ context, caller }) => done(endAbsence(context, caller)),
  }),
  route({
    key: 'GET /scopes',
    needs: { scope: null, role: 'viewer', subject: 'nothing' },
    summary: 'Every scope, and the scope and lowest role that each route needs',
    responses: { 200: accessTable },
    async handle() {
      return ok({
        scopes: Object.entries(scopes).map(([name, minimum]) => ({
          name: name as Scope,
          minimum_role: minimum,
        })),
        routes: all().map(accessTo),
      })
    },
  }),
  // The caller becomes its owner, and needs no role in any.
  route({
    key: 'POST /organizations',
    needs: { scope: 'organizations:*', role: 'viewer', subject: 'nothing' },
    audit: ['organization.created'],
    summary: 'Create an organization on plan `free`; you become its owner',
    body: organizationBody,
    responses: { 201: organization },
    handle: async ({ context, caller, body, once }) =>
      created(await actOnce(once, () => createOrganization(context, caller, body.name, once))),
  }),
]
