import {
  apiAreaPath,
  auditPath,
  cancelRunsPath,
  connectionPath,
  connectionsPath,
  connectPath,
  dataPath,
  docsPath,
  documentPath,
  editWorkflowPath,
  filePath,
  freezePath,
  healthPath,
  homePath,
  installPath,
  labelRulePath,
  newLabelRulePath,
  newWorkflowPath,
  notificationsPath,
  organizationsPath,
  providerPath,
  reportsPath,
  rerunPath,
  rerunsPath,
  rulesPath,
  searchPath,
  settingsPath,
  startPath,
  templatePath,
  templatesPath,
  terminalPath,
  toolsPath,
  triggerPath,
  triggersPath,
  tryPath,
  webhookPath,
  webhooksPath,
  workflowPath,
  workflowsPath,
} from '../../contract/pages.ts'
import type { Form, PersonsVisit, Shown } from '../visit.ts'
import { accountPage, changeAccount } from './account.tsx'
import { approvalPage, decideApproval } from './approval.tsx'
import {
  changeConnection,
  connectionPage,
  connectionsPage,
  connectPage,
  connectService,
} from './connections.tsx'
import { changeData, changeMemory, dataPage, memoryPage } from './data.tsx'
import { changeFile, filePage } from './file.tsx'
import { auditPage, verifyAudit } from './audit.tsx'
import { changeFreeze, freezePage } from './freeze.tsx'
import { apiAreaPage, docsPage, documentPage } from './documents.tsx'
import { homePage } from './home.tsx'
import { changeGroup, createGroup, groupPage, groupsPage } from './groups.tsx'
import { decideMany, inboxPage } from './inbox.tsx'
import { installPage } from './install.tsx'
import { changeKey, createKey, keyPage, keysPage, newKeyPage } from './keys.tsx'
import { notificationsPage } from './notifications.tsx'
import { healthPage } from './health.tsx'
import { makeOrganization, organizationsPage } from './organizations.tsx'
import { parametersFile } from './parameters.ts'
import { changePeople, peoplePage } from './people.tsx'
import { changeProvider, providerPage } from './provider.tsx'
import { changeRule, createRule, newRulePage, rulePage } from './rule.tsx'
import { changeLabelRule, createLabelRule, labelRulePage, newLabelRulePage } from './label-rule.tsx'
import { tryRules, tryRulesPage } from './rule-try.tsx'
import { changeRules, rulesPage } from './rules.tsx'
import { reportFile, reportsPage } from './reports.tsx'
import { againPage, runAgain } from './again.tsx'
import { happenedPage, sayHappened } from './happened.tsx'
import { changeRun, runPage } from './run.tsx'
import { changeRerun, createRerun, rerunPage, rerunsPage } from './reruns.tsx'
import { runsPage } from './runs.tsx'
import { searchPage } from './search.tsx'
import { cancelRuns, cancelRunsPage } from './runs-cancel.tsx'
import { endSession, sessionPage } from './session.tsx'
import { sessionsPage } from './sessions.tsx'
import { changeSettings, settingsPage } from './settings.tsx'
import { startPage, startRun } from './start.tsx'
import { changeTemplate, templatePage, templatesPage } from './templates.tsx'
import { decideTerminal, terminalPage } from './terminal.tsx'
import { changeTool, toolPage } from './tool.tsx'
import { toolsPage } from './tools.tsx'
import { changeTrigger, triggerPage } from './trigger.tsx'
import { createTrigger, triggersPage } from './triggers.tsx'
import { stepPage } from './step.tsx'
import { editorPage, mostFormBytes, useEditor } from './editor.tsx'
import { changeWebhook, webhookPage } from './webhook.tsx'
import { createWebhook, webhooksPage } from './webhooks.tsx'
import { changeWorkflow, workflowPage } from './workflow.tsx'
import { workflowsPage } from './workflows.tsx'
import type { Filled } from '../parts/form.tsx'

export interface PageRoute {
  readonly path: string
  get(visit: PersonsVisit): Promise<Shown>
  post?(visit: PersonsVisit, form: Form): Promise<Shown>
  /** Its form may bring a file. */
  readonly takesFile?: true
  /** Its form may have a secret, which no page shows again. */
  readonly hasSecrets?: true
  /** Its forms are of the person, or say by ids on what they act, so they hold after a switch to another organization. */
  readonly holdsEverywhere?: true
  /** For a page on which people write much: nothing of it is lost when their sign-in ends. */
  readonly keeps?: {
    /** The most that its form may have. */
    readonly bytes: number
    /** Shows the form again, which belongs to an earlier sign-in, and does nothing. */
    again(visit: PersonsVisit, filled: Filled): Promise<Shown>
  }
}

export const pages: readonly PageRoute[] = [
  { path: homePath, get: (visit) => homePage(visit) },
  {
    path: '/console/account',
    holdsEverywhere: true,
    get: (visit) => accountPage(visit),
    post: (visit, form) => changeAccount(visit, form),
  },
  {
    path: '/console/approvals',
    holdsEverywhere: true,
    get: (visit) => inboxPage(visit),
    post: (visit, form) => decideMany(visit, form),
  },
  {
    path: '/console/approvals/:id',
    holdsEverywhere: true,
    get: (visit) => approvalPage(visit),
    post: (visit, form) => decideApproval(visit, form),
  },
  {
    path: auditPath,
    get: (visit) => auditPage(visit),
    post: (visit) => verifyAudit(visit),
  },
  { path: connectionsPath, get: (visit) => connectionsPage(visit) },
  {
    path: connectPath,
    hasSecrets: true,
    get: (visit) => connectPage(visit),
    post: (visit, form) => connectService(visit, form),
  },
  {
    path: connectionPath(':id'),
    hasSecrets: true,
    get: (visit) => connectionPage(visit),
    post: (visit, form) => changeConnection(visit, form),
  },
  {
    path: dataPath,
    takesFile: true,
    get: (visit) => dataPage(visit),
    post: (visit, form) => changeData(visit, form),
  },
  {
    path: filePath(':id'),
    get: (visit) => filePage(visit),
    post: (visit, form) => changeFile(visit, form),
  },
  {
    path: `${dataPath}/memory/:key`,
    get: (visit) => memoryPage(visit),
    post: (visit, form) => changeMemory(visit, form),
  },
  { path: docsPath, get: (visit) => docsPage(visit) },
  { path: documentPath(':document'), get: (visit) => documentPage(visit) },
  { path: documentPath('reference/:document'), get: (visit) => documentPage(visit, 'reference/') },
  { path: apiAreaPath(':area'), get: (visit) => apiAreaPage(visit) },
  {
    path: freezePath,
    get: (visit) => freezePage(visit),
    post: (visit, form) => changeFreeze(visit, form),
  },
  {
    path: '/console/groups',
    get: (visit) => groupsPage(visit),
    post: (visit, form) => createGroup(visit, form),
  },
  {
    path: '/console/groups/:id',
    get: (visit) => groupPage(visit),
    post: (visit, form) => changeGroup(visit, form),
  },
  { path: '/console/keys', get: (visit) => keysPage(visit) },
  {
    path: '/console/keys/new',
    get: (visit) => newKeyPage(visit),
    post: (visit, form) => createKey(visit, form),
  },
  {
    path: '/console/keys/:id',
    get: (visit) => keyPage(visit),
    post: (visit, form) => changeKey(visit, form),
  },
  {
    path: terminalPath,
    get: (visit) => terminalPage(visit),
    post: (visit, form) => decideTerminal(visit, form),
  },
  { path: healthPath, get: (visit) => healthPage(visit) },
  {
    path: organizationsPath,
    holdsEverywhere: true,
    get: (visit) => organizationsPage(visit),
    post: (visit, form) => makeOrganization(visit, form),
  },
  { path: notificationsPath, get: (visit) => notificationsPage(visit) },
  {
    path: '/console/people',
    get: (visit) => peoplePage(visit),
    post: (visit, form) => changePeople(visit, form),
  },
  {
    path: providerPath,
    hasSecrets: true,
    get: (visit) => providerPage(visit),
    post: (visit, form) => changeProvider(visit, form),
  },
  { path: reportsPath, get: (visit) => reportsPage(visit) },
  {
    path: rulesPath,
    get: (visit) => rulesPage(visit),
    post: (visit, form) => changeRules(visit, form),
  },
  {
    path: '/console/rules/new',
    keeps: { bytes: mostFormBytes, again: (visit, filled) => newRulePage(visit, filled) },
    get: (visit) => newRulePage(visit),
    post: (visit, form) => createRule(visit, form),
  },
  {
    path: newLabelRulePath,
    keeps: { bytes: mostFormBytes, again: (visit, filled) => newLabelRulePage(visit, filled) },
    get: (visit) => newLabelRulePage(visit),
    post: (visit, form) => createLabelRule(visit, form),
  },
  {
    path: labelRulePath(':id'),
    keeps: { bytes: mostFormBytes, again: (visit, filled) => labelRulePage(visit, filled) },
    get: (visit) => labelRulePage(visit),
    post: (visit, form) => changeLabelRule(visit, form),
  },
  {
    path: tryPath,
    get: (visit) => tryRulesPage(visit),
    post: (visit, form) => tryRules(visit, form),
  },
  {
    path: '/console/rules/:id',
    keeps: { bytes: mostFormBytes, again: (visit, filled) => rulePage(visit, filled) },
    get: (visit) => rulePage(visit),
    post: (visit, form) => changeRule(visit, form),
  },
  { path: '/console/runs', get: (visit) => runsPage(visit) },
  {
    path: cancelRunsPath,
    get: (visit) => cancelRunsPage(visit),
    post: (visit, form) => cancelRuns(visit, form),
  },
  {
    path: '/console/runs/:id',
    holdsEverywhere: true,
    get: (visit) => runPage(visit),
    post: (visit, form) => changeRun(visit, form),
  },
  {
    path: '/console/runs/:id/again',
    get: (visit) => againPage(visit),
    post: (visit, form) => runAgain(visit, form),
  },
  { path: '/console/runs/:id/steps/:step', get: (visit) => stepPage(visit) },
  {
    path: '/console/runs/:id/steps/:step/happened',
    holdsEverywhere: true,
    get: (visit) => happenedPage(visit),
    post: (visit, form) => sayHappened(visit, form),
  },
  {
    path: rerunsPath,
    get: (visit) => rerunsPage(visit),
    post: (visit, form) => createRerun(visit, form),
  },
  {
    path: rerunPath(':id'),
    get: (visit) => rerunPage(visit),
    post: (visit) => changeRerun(visit),
  },
  { path: searchPath, get: (visit) => searchPage(visit) },
  { path: '/console/sessions', get: (visit) => sessionsPage(visit) },
  { path: installPath, get: (visit) => installPage(visit) },
  {
    path: '/console/sessions/:id',
    holdsEverywhere: true,
    get: (visit) => sessionPage(visit),
    post: (visit, form) => endSession(visit, form),
  },
  { path: workflowsPath, get: (visit) => workflowsPage(visit) },
  {
    path: newWorkflowPath,
    keeps: { bytes: mostFormBytes, again: (visit, filled) => editorPage(visit, filled) },
    get: (visit) => editorPage(visit),
    post: (visit, form) => useEditor(visit, form),
  },
  {
    path: editWorkflowPath,
    keeps: { bytes: mostFormBytes, again: (visit, filled) => editorPage(visit, filled) },
    get: (visit) => editorPage(visit),
    post: (visit, form) => useEditor(visit, form),
  },
  {
    path: workflowPath(':id'),
    get: (visit) => workflowPage(visit),
    post: (visit, form) => changeWorkflow(visit, form),
  },
  {
    path: settingsPath,
    get: (visit) => settingsPage(visit),
    post: (visit, form) => changeSettings(visit, form),
  },
  {
    path: startPath,
    takesFile: true,
    get: (visit) => startPage(visit),
    post: (visit, form) => startRun(visit, form),
  },
  { path: templatesPath, get: (visit) => templatesPage(visit) },
  {
    path: templatePath(':id'),
    get: (visit) => templatePage(visit),
    post: (visit, form) => changeTemplate(visit, form),
  },
  { path: toolsPath, get: (visit) => toolsPage(visit) },
  {
    path: `${toolsPath}/:name`,
    get: (visit) => toolPage(visit),
    post: (visit, form) => changeTool(visit, form),
  },
  {
    path: triggersPath,
    get: (visit) => triggersPage(visit),
    post: (visit, form) => createTrigger(visit, form),
  },
  {
    path: triggerPath(':id', ':trigger'),
    get: (visit) => triggerPage(visit),
    post: (visit, form) => changeTrigger(visit, form),
  },
  {
    path: webhooksPath,
    get: (visit) => webhooksPage(visit),
    post: (visit, form) => createWebhook(visit, form),
  },
  {
    path: webhookPath(':id'),
    get: (visit) => webhookPage(visit),
    post: (visit, form) => changeWebhook(visit, form),
  },
]

export const files: readonly PageRoute[] = [
  { path: `${reportsPath}/:table`, get: (visit) => reportFile(visit) },
  { path: '/console/approvals/:id/parameters', get: (visit) => parametersFile(visit) },
]
