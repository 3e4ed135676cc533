import uuid

from django.db import migrations, models

import mcp_django.models.validators


def give_lines(apps, schema_editor):
    """Each token begins a credential line, and its tasks belong to that line."""
    alias = schema_editor.connection.alias
    tokens = apps.get_model('mcp_django', 'AccessToken').objects.using(alias)
    tasks = apps.get_model('mcp_django', 'Task').objects.using(alias)
    # No row is updated twice: PostgreSQL would refuse to alter its table in the same transaction.
    tasks.filter(token=None).update(line=models.F('principal_key'))
    for key in tokens.values_list('pk', flat=True):
        line = uuid.uuid4()
        tokens.filter(pk=key).update(line=line)
        tasks.filter(token=key).update(line=str(line))
    # It is not known which token began a session or a ticket. A client opens a new one when its own is gone.
    for name in ('Session', 'Ticket'):
        apps.get_model('mcp_django', name).objects.using(alias).all().delete()


class Migration(migrations.Migration):

    dependencies = [
        ('mcp_django', '0002_audit'),
    ]

    operations = [
        migrations.AddField(
            model_name='accesstoken',
            name='addresses',
            field=models.JSONField(blank=True, default=list, validators=[mcp_django.models.validators.validate_addresses], verbose_name='addresses'),
        ),
        migrations.AddField(
            model_name='accesstoken',
            name='last_chars',
            field=models.CharField(blank=True, default='', editable=False, max_length=4, verbose_name='ends in'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='accesstoken',
            name='line',
            field=models.UUIDField(db_index=True, default=uuid.uuid4, editable=False),
        ),
        migrations.AlterField(
            model_name='accesstoken',
            name='expires_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='expires'),
        ),
        migrations.AddField(
            model_name='session',
            name='line',
            field=models.CharField(default='', max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='task',
            name='line',
            field=models.CharField(default='', max_length=100),
            preserve_default=False,
        ),
        migrations.RunPython(give_lines, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name='task',
            name='token',
        ),
        migrations.RemoveField(
            model_name='ticket',
            name='token',
        ),
        migrations.AddField(
            model_name='ticket',
            name='line',
            field=models.UUIDField(db_index=True, default=uuid.uuid4),
            preserve_default=False,
        ),
    ]
