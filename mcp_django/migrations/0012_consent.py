from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mcp_django', '0011_uploads'),
    ]

    operations = [
        migrations.AddField(
            model_name='accesstoken',
            name='made_by',
            field=models.CharField(blank=True, default='', editable=False, max_length=100, verbose_name='made by'),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='change',
            name='summary',
            field=models.TextField(blank=True, default='', editable=False),
            preserve_default=False,
        ),
    ]
