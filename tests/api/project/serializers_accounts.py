"""What the API reads and shows of users and their passwords."""

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from rest_framework import serializers


class ProfileSerializer(serializers.ModelSerializer):
    """What users may change of themselves."""

    class Meta:
        model = User
        fields = ["username", "email", "first_name", "last_name", "is_staff"]
        read_only_fields = ["username", "is_staff"]


class PasswordSerializer(serializers.Serializer):
    """The old and the new password of the current user."""

    old_password = serializers.CharField(write_only=True)
    new_password = serializers.CharField(write_only=True, min_length=8)

    def validate_old_password(self, password):
        if not self.context["request"].user.check_password(password):
            raise serializers.ValidationError("This is not your password.")
        return password


class RegisterSerializer(serializers.ModelSerializer):
    """A new user, whose password is never shown."""

    class Meta:
        model = User
        fields = ["username", "email", "password"]
        extra_kwargs = {"password": {"write_only": True, "min_length": 8}}

    def create(self, validated_data):
        return User.objects.create_user(**validated_data)


class LoginSerializer(serializers.Serializer):
    """A name and a password that fit together."""

    username = serializers.CharField()
    password = serializers.CharField(write_only=True)

    def validate(self, attrs):
        user = authenticate(**attrs)
        if user is None:
            raise serializers.ValidationError("The name and the password do not fit together.")
        return {"user": user}
