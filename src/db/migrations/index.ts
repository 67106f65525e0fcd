import { baseline } from './0001-baseline/index.ts'
import { groups } from './0002-groups.ts'
import { seats } from './0003-seats.ts'
import { readers } from './0004-readers.ts'
import { policyVersions } from './0005-policy-versions.ts'
import { serviceAccounts } from './0006-service-accounts.ts'
import { mailsAndLinks } from './0007-mails-and-links.ts'
import { signInProviders } from './0008-sign-in-providers.ts'
import { providerGroups } from './0009-provider-groups.ts'
import { scim } from './0010-scim.ts'
import { removedMembers } from './0011-removed-members.ts'
import { escalation } from './0012-escalation.ts'
import { changes } from './0013-changes.ts'
import { passkeys } from './0014-passkeys.ts'
import { scimGroups } from './0015-scim-groups.ts'
import { saml } from './0016-saml.ts'
import { versionApprovals } from './0017-version-approvals.ts'
import { slugs } from './0018-slugs.ts'
import { triggers } from './0019-triggers.ts'
import { asks } from './0020-asks.ts'
import { polls } from './0021-polls.ts'
import { reruns } from './0022-reruns.ts'
import { managed } from './0023-managed.ts'
import { terminalLogins } from './0024-terminal-logins.ts'
import { revisions } from './0025-revisions.ts'
import { rerunBatches } from './0026-rerun-batches.ts'
import { resolutions } from './0027-resolutions.ts'
import { rerunVersions } from './0029-rerun-versions.ts'
import { versionTools } from './0030-version-tools.ts'
import { fillVersionTools } from './0031-fill-version-tools.ts'
import { approvalsSearch } from './0032-approvals-search.ts'
import { whoWasTold } from './0033-who-was-told.ts'
import { agentSessionsBegun } from './0034-agent-sessions-begun.ts'
import { ruleCounts } from './0035-rule-counts.ts'
import { deniedByRule } from './0036-denied-by-rule.ts'
import { votesOfPerson } from './0037-votes-of-person.ts'
import { approvalsListing } from './0038-approvals-listing.ts'
import { decisionInputs } from './0043-decision-inputs.ts'
import { defaultAgentAccess } from './0042-default-agent-access.ts'
import { agentSessionsWritten } from './0040-agent-sessions-written.ts'
import { touches } from './0028-touches.ts'

/**
 * All migrations, in the order in which they run. A change of the schema is a new migration with the next number, in a
 * file of its own. A migration is never undone, and never edited once others have it. The locks that it takes are held
 * until its end: what locks a table against reading, and what writes many rows, are migrations of their own.
 */
export const migrations: readonly [Migration, ...Migration[]] = [
  { name: '0001-baseline', sql: baseline },
  { name: '0002-groups', sql: groups },
  { name: '0003-seats', sql: seats },
  { name: '0004-readers', sql: readers },
  { name: '0005-policy-versions', sql: policyVersions },
  { name: '0006-service-accounts', sql: serviceAccounts },
  { name: '0007-mails-and-links', sql: mailsAndLinks },
  { name: '0008-sign-in-providers', sql: signInProviders },
  { name: '0009-provider-groups', sql: providerGroups },
  { name: '0010-scim', sql: scim },
  { name: '0011-removed-members', sql: removedMembers },
  { name: '0012-escalation', sql: escalation },
  { name: '0013-changes', sql: changes },
  { name: '0014-passkeys', sql: passkeys },
  { name: '0015-scim-groups', sql: scimGroups },
  { name: '0016-saml', sql: saml },
  { name: '0017-version-approvals', sql: versionApprovals },
  { name: '0018-slugs', sql: slugs },
  { name: '0019-triggers', sql: triggers },
  { name: '0020-asks', sql: asks },
  { name: '0021-polls', sql: polls },
  { name: '0022-reruns', sql: reruns },
  { name: '0023-managed', sql: managed },
  { name: '0024-terminal-logins', sql: terminalLogins },
  { name: '0025-revisions', sql: revisions },
  { name: '0026-rerun-batches', sql: rerunBatches },
  { name: '0027-resolutions', sql: resolutions },
  { name: '0028-touches', sql: touches },
  { name: '0029-rerun-versions', sql: rerunVersions },
  { name: '0030-version-tools', sql: versionTools },
  { name: '0031-fill-version-tools', sql: fillVersionTools },
  { name: '0032-approvals-search', sql: approvalsSearch },
  { name: '0033-who-was-told', sql: whoWasTold },
  { name: '0034-agent-sessions-begun', sql: agentSessionsBegun },
  { name: '0035-rule-counts', sql: ruleCounts },
  { name: '0036-denied-by-rule', sql: deniedByRule },
  { name: '0037-votes-of-person', sql: votesOfPerson },
  { name: '0038-approvals-listing', sql: approvalsListing },
  { name: '0040-agent-sessions-written', sql: agentSessionsWritten },
  { name: '0042-default-agent-access', sql: defaultAgentAccess },
  { name: '0043-decision-inputs', sql: decisionInputs },
]

export interface Migration {
  readonly name: string
  readonly sql: string
}
