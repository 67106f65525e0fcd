import { mostConnections } from '../src/governance/connections/save-connection.ts'
import { agentApprovalSeconds } from '../src/governance/approvals/records.ts'
import { mostCodes, mostCodesToAccount } from '../src/governance/notifications/claims.ts'
import { mostGuesses, secondsForOneMore } from '../src/governance/people/guesses.ts'
import { mostAbsentDays } from '../src/governance/people/absences.ts'
import { mostGroups } from '../src/governance/people/groups.ts'
import { providerSessionHours } from '../src/governance/access/recheck.ts'
import { mostGroups as mostProviderGroups } from '../src/governance/signin/enter.ts'
import { mostScimTokens } from '../src/governance/signin/scim.ts'
import { mailsAnHour } from '../src/governance/people/invitations.ts'
import { mostPasskeys } from '../src/governance/people/passkeys.ts'
import { mostServiceAccounts } from '../src/governance/people/service-accounts.ts'
import { readEnvironment } from '../src/shared/environment.ts'
import { ceiling } from '../src/contract/plan-limits.ts'
import { longest as longestCommand } from '../src/shell/limits.ts'
import {
  type Rows,
  characters,
  count,
  numberAt,
  parameter,
  perMinute,
  sameAt,
  seconds,
} from './limits-numbers.ts'

/* The limits of agents, people, keys and connections. */

export const agents: Rows = [
  [
    'names: session, tool, call',
    `${sameAt('AuthorizeRequest.session_id.maxLength', 'AuthorizeRequest.tool_name.maxLength', 'AuthorizeRequest.tool_use_id.maxLength')} characters`,
  ],
  [
    'name and kind of an agent',
    `${sameAt('AuthorizeRequest.agent.name.maxLength', 'AuthorizeRequest.agent.kind.maxLength')} characters`,
  ],
  [
    'scripts of a command that a client sends, and folders of it',
    `${numberAt('AuthorizeRequest.scripts.maxItems')}, each named in ${numberAt('AuthorizeRequest.scripts.items.word.maxLength')} characters; ${numberAt('AuthorizeRequest.real_folders.maxItems')}`,
  ],
  [
    'reason of an ended session, of a revoked one',
    `${numberAt('SessionEndRequest.reason.maxLength')}, ${numberAt('RevokeSessionRequest.reason.maxLength')} characters`,
  ],
  ['shell command that is read', `${count(longestCommand)} characters; a longer one counts as a script`],
  ['approval of an agent’s call', `${seconds(agentApprovalSeconds)}, unless its rule says otherwise`],
]

/**
 * The maximum lengths of the parameters of the callback address. A service sends the browser back to this address. If
 * several parameters have the same maximum length, the list has this length only once.
 */
const callback = [
  ...new Set(
    ['code', 'state', 'iss', 'error'].map((name) =>
      count(parameter('get', '/connections/callback/{integration}', name).maxLength),
    ),
  ),
]

export const people: Rows = [
  ['service accounts of an organization', `${mostServiceAccounts}`],
  [
    'comment of a vote; reason of a rejection, a cancellation or an outdated template',
    `${sameAt('ApproveRequest.comment.maxLength', 'RejectRequest.reason.maxLength', 'CancelRequest.reason.maxLength', 'DeprecateTemplateRequest.reason.maxLength')} characters`,
  ],
  ['groups of an organization', count(mostGroups)],
  [
    'members of a group',
    `${numberAt('GroupRequest.members.maxItems')}, each named in ${numberAt('GroupRequest.members.items.maxLength')} characters`,
  ],
  ['description of a group', characters('GroupRequest.description')],
  [
    'absence of a member; name of the deputy',
    `${mostAbsentDays} days; ${characters('AbsenceRequest.deputy')}`,
  ],
  ['reason of a freeze', characters('FreezeRequest.reason')],
  ['name of an organization, a key, a connection', characters('OrganizationRequest.name')],
  ['mail address of an invitation', characters('InvitationRequest.email')],
  [
    'scopes of an API key',
    `${numberAt('ApiKeyRequest.scopes.maxItems')} of ${characters('ApiKeyRequest.scopes.items')}`,
  ],
  [
    'sign-in provider: issuer, client, secret, claim',
    `${numberAt('SignInProviderRequest.issuer.maxLength')}, ${numberAt('SignInProviderRequest.client_id.maxLength')}, ${numberAt('SignInProviderRequest.client_secret.maxLength')}, ${numberAt('SignInProviderRequest.groups_claim.maxLength')} characters`,
  ],
  [
    'its mail domains',
    `${numberAt('SignInProviderRequest.domains.maxItems')} of ${characters('SignInProviderRequest.domains.items')}`,
  ],
  [
    'a SAML provider: address, certificates',
    `${numberAt('SignInProviderRequest.sso_url.maxLength')} characters; ${numberAt('SignInProviderRequest.certificates.maxItems')} of ${characters('SignInProviderRequest.certificates.items')}`,
  ],
  ['groups of one person that a provider names', count(mostProviderGroups)],
  [
    'SCIM tokens of an organization',
    `${mostScimTokens}, each for at most ${numberAt('ScimTokenRequest.days.maximum')} days; names of ${characters('ScimTokenRequest.name')}`,
  ],
  ['length of a sign-in with a provider', `${providerSessionHours} hours`],
  ['connections of an organization, those of its members included', count(mostConnections)],
  [
    'each field that a service sends to `GET /connections/callback/{integration}`',
    `${callback.join(' or ')} characters`,
  ],
  [
    'addresses that are invited at once',
    `${numberAt('InvitationsRequest.emails.maxItems')} of ${characters('InvitationsRequest.emails.items')}`,
  ],
  [
    'mails for one person’s invitations in an hour',
    `${mailsAnHour.address} to one address, ${mailsAnHour.all} in all`,
  ],
  [
    'people whom one person invites in a day, and who share no organization with them',
    `${count(readEnvironment({}).values.STRANGERS_INVITED_PER_DAY ?? 0)}; \`STRANGERS_INVITED_PER_DAY\``,
  ],
  ['codes to Slack in an hour', `${mostCodes} for a member, ${mostCodesToAccount} to one account`],
  [
    'validity of an invitation',
    seconds(Number(numberAt('InvitationRequest.expires_in_seconds.maximum').replaceAll(',', ''))),
  ],
  ['wrong passwords', `${mostGuesses} at once, then one in ${seconds(secondsForOneMore)}`],
  ['signing in', perMinute('/sign-in/email')],
  ['signing up', perMinute('/sign-up/email')],
  ['beginning a sign-in with a provider', perMinute('/sign-in/provider')],
  ['passkeys of a person', count(mostPasskeys)],
  ['signing in with a passkey', perMinute('/passkey/sign-in')],
  ['override of a quota', `${ceiling} times the plan’s limit`],
]
